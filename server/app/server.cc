#include "server/app/server.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/app/faults.h"
#include "server/app/info.h"
#include "server/app/secrets.h"
#include "server/base/address.h"
#include "server/base/log.h"
#include "server/base/receive_pool.h"
#include "server/config/check.h"
#include "server/config/security_check.h"
#include "server/execution/device_group.h"
#include "server/execution/executor.h"
#include "server/metrics/metrics.h"
#include "server/rpc/accept/acceptor.h"
#include "server/rpc/accept/channel_settings.h"
#include "server/rpc/accept/socket_handoff.h"
#include "server/rpc/health/health_server.h"
#include "server/rpc/queue/queue_thread.h"

namespace softmax::server {
namespace {

// How often overdue answers and the devices' health are looked at.
constexpr auto kSweepInterval = std::chrono::milliseconds(100);
// How many of these pass between two looks at certificates and tokens.
constexpr int kSweepsPerRefresh = 5;
// How many between two looks of the queue threads at their streams.
constexpr int kSweepsPerAttention = 10;
// The acceptor's destinations.
constexpr std::size_t kPlain = 0;
constexpr std::size_t kHealth = 1;
constexpr std::size_t kTls = 2;
constexpr auto kCallsPoll = std::chrono::milliseconds(2);
// How long cancelled calls may still take for their batches; longer only where a device hangs.
constexpr auto kLastCalls = std::chrono::seconds(1);

Batcher::Options BatcherOptions(const Config& config) {
  Batcher::Options options;
  options.batch.bytes = config.max_batch_bytes;
  options.batch.requests = static_cast<std::uint32_t>(config.max_batch_requests);
  options.max_in_flight = static_cast<std::uint32_t>(config.max_in_flight_batches);
  options.max_queue_delay = config.max_queue_delay;
  options.gather_bytes = config.receive_bytes > 0 ? config.gather_bytes : 0;
  options.inline_copy_bytes = std::min<std::uint64_t>(1u << 20, config.max_batch_bytes);
  return options;
}

DeviceGroup::Options DeviceOptions(const Config& config) {
  DeviceGroup::Options options;
  options.batch_timeout = config.device_timeout;
  options.degraded_limit = config.degraded_limit;
  options.arena_bytes = config.arena_bytes;
  // Reserved in one step: the request, and its answer where that lies apart.
  options.largest_request_bytes = config.max_request_bytes + config.max_response_bytes;
  return options;
}

Backlog::Options BacklogOptions(const Config& config, unsigned cores) {
  Backlog::Options options;
  options.threads = static_cast<std::uint32_t>(EffectiveFillerThreads(config, cores));
  options.max_requests = config.max_queued_requests;
  options.max_bytes = config.max_queued_bytes;
  // Whoever holds memory has to give it back by then: a hanging device, an answer that waits to be sent, one that is
  // not read. What is not free after it is kept for a lost device, or a mistake.
  const Config::Duration device = config.device_timeout.count() > 0 ? config.device_timeout : Config().device_timeout;
  options.max_wait = device + 2 * config.answer_timeout;
  return options;
}

Connections::Options ConnectionOptions(const Config& config) {
  Connections::Options options;
  options.max_unread_bytes = config.max_unread_bytes_per_connection;
  options.answer_timeout = config.answer_timeout;
  return options;
}

absl::StatusOr<Acceptor::Options> AcceptorOptions(const Config& config) {
  Acceptor::Options options;
  for (const std::string& text : config.address) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    // A unix socket's callers are told apart by its file's mode, and nobody listens in between.
    const bool tls = IsSet(config.tls_cert) && !(address.ok() && address->is_unix());
    options.places.push_back({text, tls ? kTls : kPlain});
  }
  if (IsSet(config.health_address)) options.places.push_back({config.health_address, kHealth});
  if (absl::Status status = ParseSocketMode(config.unix_socket_mode, &options.unix_socket_mode); !status.ok()) {
    return status;
  }
  return options;
}

class ServerImpl final : public Server {
 public:
  ServerImpl(const Config& config, std::unique_ptr<FaultPlan> faults, std::unique_ptr<Executor> executor)
      : config_(config),
        cores_(std::max(1u, std::thread::hardware_concurrency())),
        faults_(std::move(faults)),
        executor_(std::move(executor)),
        devices_(*executor_, DeviceOptions(config), faults_.get()),
        arena_(executor_->memory(), config.arena_bytes, config.slab_bytes),
        backlog_(BacklogOptions(config, cores_), arena_),
        connections_(ConnectionOptions(config)),
        health_connections_(ConnectionOptions(config)),
        state_(arena_, backlog_, connections_) {
    const std::span<std::byte> memory = executor_->receive_memory();
    has_receive_pool_ = ReceivePool::Install(memory.data(), memory.size());
  }
  ~ServerImpl() override;

  absl::Status Start();

  const std::vector<std::string>& addresses() const override { return addresses_; }
  std::string metrics_address() const override { return metrics_address_; }
  std::string health_address() const override { return health_address_; }
  void RefreshSecrets() override { secrets_->Refresh(); }
  absl::Status health() const override { return devices_.health(); }
  bool hangs() const override { return devices_.devices().any_hangs(); }
  void Drain() override;
  void HurryDrain() override;
  std::uint64_t slabs_used() const override { return arena_.slabs_used(); }

 private:
  absl::Status StartMetrics();
  absl::Status BuildGrpc();
  absl::Status StartThreads();
  absl::Status Listen();
  std::vector<Acceptor::Destination> Destinations();
  void Announce() const;
  void TakeSlabs(std::uint64_t left);
  GaugeSources Gauges();
  void Sweep(std::stop_token stop);
  void ShutDown(std::chrono::system_clock::time_point deadline);
  void WaitUnlessHurried(Nanoseconds duration);
  void WaitForCalls(TimePoint until);

  const Config config_;
  const unsigned cores_;
  // In the order of dependence: what answers refer to outlives the gRPC server.
  std::unique_ptr<FaultPlan> faults_;  // null: none
  std::unique_ptr<Executor> executor_;
  DeviceGroup devices_;
  Arena arena_;
  Backlog backlog_;
  Connections connections_;
  Connections health_connections_;
  std::unique_ptr<Secrets> secrets_;
  ServiceState state_;
  std::unique_ptr<Metrics> metrics_;
  std::string metrics_address_;
  std::vector<std::unique_ptr<QueueThread>> queues_;
  std::unique_ptr<HealthServer> health_server_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::string> addresses_;
  std::string health_address_;
  std::jthread sweeper_;

  std::mutex hurry_mu_;
  std::condition_variable hurry_changed_;
  bool hurry_ = false;
  bool shut_down_ = false;
  bool has_receive_pool_ = false;
};

absl::Status ServerImpl::StartMetrics() {
  Metrics::Options options;
  options.version = Version();
  options.commit = Commit();
  options.backend = executor_->name();
  options.settings = ConfigSettings(config_);
  metrics_ = Metrics::Create(std::move(options));
  if (config_.metrics_address == "none") return absl::OkStatus();
  if (std::string error = metrics_->Serve(config_.metrics_address); !error.empty()) {
    return absl::UnavailableError(absl::StrCat("metrics-address: ", error));
  }
  const std::string host(SplitHostPort(config_.metrics_address)->host);
  metrics_address_ = absl::StrCat(host, ":", metrics_->port());
  return absl::OkStatus();
}

absl::Status ServerImpl::BuildGrpc() {
  QueueServer::Options options;
  options.channel = ChannelSettingsFor(config_);
  options.quota.Resize(config_.memory_quota);
  options.tls = secrets_->tls();
  options.reflection = config_.reflection;
  const auto threads = static_cast<std::uint32_t>(EffectiveThreads(config_, cores_));
  for (std::uint32_t i = 0; i < threads; ++i) {
    absl::StatusOr<std::unique_ptr<QueueServer>> server = QueueServer::Create(options);
    if (!server.ok()) return server.status();
    QueueThread::Options thread;
    thread.batcher = BatcherOptions(config_);
    thread.index = thread.batcher.home = i;
    thread.admission.requests = static_cast<std::uint32_t>(config_.max_batched_per_connection);
    thread.admission.in_flight_bytes = config_.max_in_flight_bytes_per_connection;
    queues_.push_back(std::make_unique<QueueThread>(state_, thread, std::move(*server), *metrics_->AddRecorder()));
  }
  return absl::OkStatus();
}

absl::Status ServerImpl::StartThreads() {
  for (const auto& queue : queues_) {
    absl::StatusOr<std::unique_ptr<Lane>> lane = devices_.CreateLane(queue->wake());
    if (!lane.ok()) return lane.status();
    queue->Start(std::move(*lane));
  }
  return devices_.Start();
}

absl::Status ServerImpl::Listen() {
  absl::StatusOr<Acceptor::Options> options = AcceptorOptions(config_);
  if (!options.ok()) return options.status();
  absl::StatusOr<std::unique_ptr<Acceptor>> acceptor = Acceptor::Create(*options);
  if (!acceptor.ok()) return acceptor.status();
  acceptor_ = std::move(*acceptor);
  addresses_ = acceptor_->addresses();
  if (IsSet(config_.health_address)) {
    health_address_ = addresses_.back();
    addresses_.pop_back();
    health_server_ = std::make_unique<HealthServer>(state_.health);
    return health_server_->Start();
  }
  return absl::OkStatus();
}

std::vector<Acceptor::Destination> ServerImpl::Destinations() {
  std::vector<Acceptor::Destination> destinations(kTls + 1);
  const auto limit = static_cast<std::uint32_t>(config_.max_connections);
  std::vector<grpc::Server*> servers;
  std::vector<std::unique_ptr<TlsHandoff::Acceptor>> tls_acceptors;
  for (const auto& queue : queues_) {
    servers.push_back(queue->server().grpc());
    if (secrets_->tls() != nullptr) tls_acceptors.push_back(queue->server().TakeTlsAcceptor());
  }
  destinations[kPlain].handoff = std::make_unique<PlainHandoff>(std::move(servers));
  destinations[kPlain].connections = destinations[kTls].connections = &connections_;
  destinations[kPlain].max_connections = destinations[kTls].max_connections = limit;
  if (!tls_acceptors.empty()) destinations[kTls].handoff = std::make_unique<TlsHandoff>(std::move(tls_acceptors));
  Acceptor::Destination& health = destinations[kHealth];
  health.connections = &health_connections_;
  if (health_server_ != nullptr) {
    health.handoff = std::make_unique<PlainHandoff>(std::vector<grpc::Server*>{health_server_->grpc()});
    health.max_connections = HealthServer::kMaxConnections;
    health.while_draining = true;
    health.poll = [this] { health_server_->Poll(); };
  }
  return destinations;
}

void ServerImpl::Announce() const {
  for (const std::string& address : addresses_) {
    const bool tls = secrets_->tls() != nullptr && address.rfind("unix:", 0) != 0;
    LogInfo("listening on ", address);
    LogInfo(address, ": ",
            !tls                                           ? "plain text"
            : secrets_->tls()->wants_client_certificates() ? "TLS, clients show certificates"
                                                           : "TLS",
            ", ", secrets_->tokens() != nullptr ? "with tokens" : "without tokens");
  }
  if (!health_address_.empty()) LogInfo("health on ", health_address_);
  if (!metrics_address_.empty()) LogInfo("metrics on ", metrics_address_);
  const double most = static_cast<double>(config_.max_connections) *
                      static_cast<double>(config_.max_concurrent_streams) *
                      static_cast<double>(config_.max_request_bytes);
  LogInfo("max-connections ", config_.max_connections, " x max-concurrent-streams ", config_.max_concurrent_streams,
          " x max-request-bytes are ", absl::StrFormat("%.0f", most / static_cast<double>(config_.memory_quota)),
          " times the memory-quota, at which gRPC cancels calls");
}

absl::Status ServerImpl::Start() {
  absl::StatusOr<std::unique_ptr<Secrets>> secrets = Secrets::Load(config_);
  if (!secrets.ok()) return secrets.status();
  secrets_ = std::move(*secrets);
  state_.tokens = secrets_->tokens();
  state_.slow_requests.SetThreshold(config_.slow_request);
  if (absl::Status status = Listen(); !status.ok()) return status;
  state_.limits = WireLimitsFor(config_);
  state_.max_in_flight_per_stream = static_cast<std::uint32_t>(config_.max_in_flight_per_stream);
  state_.info = ServerInfoFor(config_, executor_->name(), executor_->devices());
  state_.describe_devices = [this](v1::GetServerInfoResponse* info) { DescribeDevices(devices_.devices(), info); };
  if (absl::Status status = StartMetrics(); !status.ok()) return status;
  if (absl::Status status = BuildGrpc(); !status.ok()) return status;
  if (absl::Status status = StartThreads(); !status.ok()) return status;
  if (faults_ != nullptr) TakeSlabs(faults_->faults().slabs_left);
  metrics_->SetGauges(Gauges());
  state_.health.AddListener([this] {
    for (const auto& queue : queues_) queue->RequestAttention();
    if (health_server_ != nullptr) health_server_->RequestAttention();
  });
  state_.health.SetUnsafeTesting(config_.unsafe_testing);
  acceptor_->Start(Destinations());
  sweeper_ = std::jthread([this](std::stop_token stop) { Sweep(stop); });
  state_.health.SetReady(true);
  Announce();
  return absl::OkStatus();
}

// By a fault: all slabs but so many (0: all stay) are taken and never come back.
void ServerImpl::TakeSlabs(std::uint64_t left) {
  if (left == 0 || left >= arena_.slabs_total()) return;
  (void)arena_.TryReserve((arena_.slabs_total() - left) * config_.slab_bytes);
}

GaugeSources ServerImpl::Gauges() {
  GaugeSources sources;
  sources.requests_in_flight = [this] { return static_cast<double>(state_.requests_in_flight.Sum()); };
  sources.requests_queued = [this] { return static_cast<double>(backlog_.queued_requests()); };
  sources.bytes_queued = [this] { return static_cast<double>(backlog_.queued_bytes()); };
  sources.slabs_total = [this] { return static_cast<double>(arena_.slabs_total()); };
  sources.slabs_used = [this] { return static_cast<double>(arena_.slabs_used()); };
  sources.slabs_held_by_answers = [this] {
    return static_cast<double>((static_cast<std::uint64_t>(connections_.held_bytes().Sum()) + config_.slab_bytes - 1) /
                               config_.slab_bytes);
  };
  sources.receive_blocks_total = [] { return static_cast<double>(ReceivePool::blocks_total()); };
  sources.receive_blocks_used = [] { return static_cast<double>(ReceivePool::blocks_used()); };
  sources.connections = [this] { return static_cast<double>(connections_.size()); };
  sources.unsafe_testing = [this] { return config_.unsafe_testing ? 1.0 : 0.0; };
  sources.degraded = [this] { return devices_.devices().degraded() ? 1.0 : 0.0; };
  sources.devices = [this] { return DeviceGaugesOf(devices_.devices()); };
  sources.ready = [this] { return state_.health.ready() ? 1.0 : 0.0; };
  return sources;
}

void ServerImpl::Sweep(std::stop_token stop) {
  TimePoint warned = SteadyClock::now() - std::chrono::hours(1);
  for (int sweep = 0; !stop.stop_requested(); ++sweep) {
    std::this_thread::sleep_for(kSweepInterval);
    if (sweep % kSweepsPerRefresh == 0) secrets_->Refresh();
    const TimePoint now = SteadyClock::now();
    // A stream's answers may be overdue before gRPC has seen them.
    if (connections_.SweepOverdue(now) || sweep % kSweepsPerAttention == 0) {
      for (const auto& queue : queues_) queue->RequestAttention();
    }
    devices_.Sweep(now);
    if (!devices_.usable()) state_.health.SetLive(false);
    if (config_.unsafe_testing && now - warned > std::chrono::minutes(1)) {
      LogWarning("unsafe-testing is on: this server's answers are not to be trusted");
      warned = now;
    }
  }
}

void ServerImpl::WaitUnlessHurried(Nanoseconds duration) {
  std::unique_lock lock(hurry_mu_);
  hurry_changed_.wait_for(lock, duration, [this] { return hurry_; });
}

void ServerImpl::HurryDrain() {
  {
    std::lock_guard lock(hurry_mu_);
    hurry_ = true;
  }
  hurry_changed_.notify_all();
}

void ServerImpl::Drain() {
  LogInfo("draining: ", state_.requests_in_flight.Sum(), " requests in flight");
  state_.health.SetReady(false);
  WaitUnlessHurried(config_.drain_delay);
  state_.draining.store(true);
  acceptor_->StopListening();
  state_.ending_watches.store(true);
  for (const auto& queue : queues_) queue->RequestAttention();
  const TimePoint until = SteadyClock::now() + config_.drain_timeout;
  WaitForCalls(until);
  // A call that reaches a grpc::Server after its Shutdown is CANCELLED, which no client retries. So the connections end
  // first: what has arrived is still answered (UNAVAILABLE), what comes later finds its connection closed (UNAVAILABLE,
  // too).
  connections_.EndAll(until);
  WaitForCalls(until);
  const std::int64_t left = state_.active_calls.Sum();
  if (left > 0) LogWarning("drain-timeout: cancelling ", left, " calls");
  ShutDown(std::chrono::system_clock::now() +
           (left > 0 ? std::chrono::milliseconds(0) : std::chrono::milliseconds(1000)));
  LogInfo("drained");
}

void ServerImpl::WaitForCalls(TimePoint until) {
  while (state_.active_calls.Sum() > 0 && SteadyClock::now() < until) {
    std::unique_lock lock(hurry_mu_);
    if (hurry_changed_.wait_for(lock, kCallsPoll, [this] { return hurry_; })) return;
  }
}

void ServerImpl::ShutDown(std::chrono::system_clock::time_point deadline) {
  if (shut_down_) return;
  shut_down_ = true;
  if (sweeper_.joinable()) {
    sweeper_.request_stop();
    sweeper_.join();
  }
  if (acceptor_ != nullptr) acceptor_->StopListening();
  backlog_.Stop(/*fail=*/false);
  for (const auto& queue : queues_) queue->server().Shutdown(deadline);
  if (acceptor_ != nullptr) acceptor_->Stop();
  health_connections_.ShutdownAll();
  if (health_server_ != nullptr) health_server_->Shutdown();
  const TimePoint until = SteadyClock::now() + kLastCalls;  // of all together
  for (const auto& queue : queues_) queue->ShutdownAndJoin(until);
  if (metrics_ != nullptr) metrics_->ClearGauges();
}

ServerImpl::~ServerImpl() {
  state_.draining.store(true);
  state_.ending_watches.store(true);
  for (const auto& queue : queues_) queue->RequestAttention();
  connections_.ShutdownAll();
  ShutDown(std::chrono::system_clock::now());
  acceptor_.reset();
  health_server_.reset();
  queues_.clear();
  // gRPC may hold a received block a little longer than its servers live.
  const bool receives = has_receive_pool_ && !ReceivePool::Remove();
  // To free what a hanging device holds could take for ever; the process is about to end.
  static auto* const kept = new std::vector<std::unique_ptr<Executor>>;
  if (hangs() || receives) kept->push_back(std::move(executor_));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const Config& config) {
  absl::StatusOr<Faults> faults = ParseFaults(config.fault);
  if (!faults.ok()) return faults.status();
  std::unique_ptr<FaultPlan> plan = faults->any() ? std::make_unique<FaultPlan>(*faults) : nullptr;
  ExecutorOptions options = ExecutorOptionsFor(config);
  options.faults = plan.get();
  absl::StatusOr<std::unique_ptr<Executor>> executor = CreateExecutor(options);
  if (!executor.ok()) return executor.status();
  auto server = std::make_unique<ServerImpl>(config, std::move(plan), std::move(*executor));
  if (absl::Status status = server->Start(); !status.ok()) return status;
  return server;
}

}  // namespace softmax::server
