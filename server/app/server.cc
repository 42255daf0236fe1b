#include "server/app/server.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <grpcpp/server.h>

#include "server/app/component_options.h"
#include "server/app/drain.h"
#include "server/app/parts.h"
#include "server/app/secrets.h"
#include "server/base/log.h"
#include "server/base/receive_pool.h"
#include "server/config/config.h"
#include "server/rpc/accept/socket_handoff.h"
#include "server/rpc/calls/softmax_group.h"
#include "server/rpc/oip/infer_group.h"

namespace softmax::server {
namespace {

// What a server listens on, as clients write it, with the ports that were chosen.
struct ListenAddresses {
  std::vector<std::string> service;
  std::string metrics;  // empty: none, as with health
  std::string health;
};

// What starts here: version, commit, backend, devices, threads and memory, in one line.
void Introduce(const Config& config, const Executor& executor) {
  const std::string places = executor.topology().Describe(QueueThreadsFor(config));
  LogInfo("softmax-server ", Version(), " (", Commit(), "): backend ", executor.name(), ", ",
          absl::StrJoin(executor.devices(), "; "), "; ", DescribeThreads(config, CoresOfThisProcess()), ", of at most ",
          ThreadsFor(config), " threads", places.empty() ? "" : absl::StrCat(", of these ", places),
          "; memory: arena-bytes ", config.arena_bytes >> 20, " MiB, memory-quota ", config.memory_quota >> 20, " MiB");
}

// The log lines of a server that has started.
void Announce(const Config& config, const Secrets& secrets, const ListenAddresses& addresses) {
  for (const std::string& address : addresses.service) {
    const bool tls = secrets.tls() != nullptr && address.rfind("unix:", 0) != 0;
    LogInfo("listening on ", address);
    LogInfo(address, ": ",
            !tls                                         ? "plain text"
            : secrets.tls()->wants_client_certificates() ? "TLS, clients show certificates"
                                                         : "TLS",
            ", ", secrets.tokens() != nullptr ? "with tokens" : "without tokens");
  }
  if (IsSet(config.regions_socket)) {
    LogInfo("regions on ", config.regions_socket, ": regions-bytes ", config.regions_bytes >> 20, " MiB, ",
            "regions-device-bytes ", config.regions_device_bytes >> 20, " MiB, for uids ", config.regions_uids);
  }
  if (!addresses.health.empty()) LogInfo("health on ", addresses.health);
  if (!addresses.metrics.empty()) LogInfo("metrics on ", addresses.metrics);
  const double most = static_cast<double>(config.max_connections) * static_cast<double>(config.max_concurrent_streams) *
                      static_cast<double>(config.max_request_bytes);
  // Nothing to worry about: the default settings have it, too.
  LogDebug("max-connections ", config.max_connections, " x max-concurrent-streams ", config.max_concurrent_streams,
           " x max-request-bytes are ", absl::StrFormat("%.0f", most / static_cast<double>(config.memory_quota)),
           " times the memory-quota, at which gRPC cancels calls");
}

class ServerImpl final : public Server {
 public:
  ServerImpl(const Config& config, std::unique_ptr<FaultPlan> faults, std::unique_ptr<Executor> executor)
      : config_(config),
        faults_(std::move(faults)),
        executor_(std::move(executor)),
        devices_(*executor_, DeviceGroupOptionsFor(config), faults_.get()),
        arena_(executor_->memory(), config.arena_bytes, config.slab_bytes),
        backlog_(BacklogOptionsFor(config), arena_),
        connections_(ConnectionsOptionsFor(config)),
        health_connections_(ConnectionsOptionsFor(config)),
        state_(arena_, backlog_, connections_),
        drain_(state_, health_connections_, parts_, {config.drain_delay, config.drain_timeout}) {
    const std::span<std::byte> memory = executor_->receive_memory();
    has_receive_pool_ = ReceivePool::Install(memory.data(), memory.size());
  }
  ~ServerImpl() override;

  absl::Status Start();

  const std::vector<std::string>& addresses() const override { return addresses_.service; }
  std::string metrics_address() const override { return addresses_.metrics; }
  std::string health_address() const override { return addresses_.health; }
  void RefreshSecrets() override { secrets_->Refresh(); }
  absl::Status health() const override { return devices_.health(); }
  bool hangs() const override { return devices_.devices().any_hangs(); }
  void Drain() override { drain_.Run(); }
  void HurryDrain() override { drain_.Hurry(); }
  std::uint64_t slabs_used() const override { return arena_.slabs_used(); }

 private:
  absl::Status StartMetrics();
  absl::Status BuildGrpc();
  absl::Status StartRegions();
  absl::Status StartSpans();
  absl::Status StartThreads();
  absl::Status Listen();
  std::vector<Acceptor::Destination> Destinations();
  void TakeSlabs(std::uint64_t left);

  const Config config_;
  // In the order of dependence: what answers refer to outlives the gRPC server.
  std::unique_ptr<FaultPlan> faults_;  // null: none
  std::unique_ptr<Executor> executor_;
  DeviceGroup devices_;
  Arena arena_;
  Backlog backlog_;
  Connections connections_;
  Connections health_connections_;
  std::unique_ptr<Secrets> secrets_;
  std::unique_ptr<SpanExporter> spans_;  // null: none are sent
  ServiceState state_;
  ModelStatistics model_statistics_;
  std::unique_ptr<SharedFiles> shared_files_;  // null: none are served
  RunningParts parts_;
  server::Drain drain_;
  ListenAddresses addresses_;
  bool has_receive_pool_ = false;
};

absl::Status ServerImpl::StartMetrics() {
  Metrics::Options options;
  options.version = Version();
  options.commit = Commit();
  options.backend = executor_->name();
  options.settings = ConfigSettings(config_);
  parts_.metrics = Metrics::Create(std::move(options));
  if (config_.metrics_address == "none") return absl::OkStatus();
  if (std::string error = parts_.metrics->Serve(config_.metrics_address, OipPages(state_.health, Version()));
      !error.empty()) {
    return absl::UnavailableError(absl::StrCat("metrics-address: ", error));
  }
  const std::string host = config_.metrics_address.substr(0, config_.metrics_address.rfind(':'));
  addresses_.metrics = absl::StrCat(host, ":", parts_.metrics->port());
  return absl::OkStatus();
}

absl::Status ServerImpl::BuildGrpc() {
  QueueServer::Options options;
  options.channel = ChannelSettingsFor(config_);
  options.quota.Resize(config_.memory_quota);
  options.tls = secrets_->tls();
  const std::uint32_t threads = QueueThreadsFor(config_);
  for (std::uint32_t i = 0; i < threads; ++i) {
    Recorder& recorder = *parts_.metrics->AddRecorder();
    const CoreSet cores = executor_->topology().HomeOf(i).cores;
    auto queue =
        std::make_unique<QueueThread>(arena_, backlog_, connections_.unread_budget(),
                                      QueueThreadOptionsFor(config_, i, executor_->prices(), cores), options, recorder);
    auto softmax = std::make_unique<SoftmaxGroup>(*queue, state_, recorder, config_.reflection);
    auto infer = std::make_unique<InferGroup>(softmax->context(), model_statistics_, shared_files_.get());
    queue->Add(std::move(softmax));
    queue->Add(std::move(infer));
    if (absl::Status status = queue->StartServer(); !status.ok()) return status;
    parts_.queues.push_back(std::move(queue));
  }
  return absl::OkStatus();
}

absl::Status ServerImpl::StartRegions() {
  if (!IsSet(config_.regions_socket)) return absl::OkStatus();
  absl::StatusOr<RegionServer::Options> options = RegionServerOptionsFor(config_, devices_.devices().count());
  if (!options.ok()) return options.status();
  options->keeps_memory = [this] { return devices_.devices().lost() > 0; };
  absl::StatusOr<std::unique_ptr<RegionServer>> regions = RegionServer::Create(*options, *executor_);
  if (!regions.ok()) return regions.status();
  parts_.regions = std::move(*regions);
  state_.regions = &parts_.regions->registry();
  return absl::OkStatus();
}

absl::Status ServerImpl::StartSpans() {
  absl::StatusOr<SpanExporter::Options> options = SpanExporterOptionsFor(config_);
  if (!options.ok()) return options.status();
  if (options->target.empty()) return absl::OkStatus();
  spans_ = std::make_unique<SpanExporter>(*options);
  state_.spans = spans_.get();
  return absl::OkStatus();
}

absl::Status ServerImpl::StartThreads() {
  for (const auto& queue : parts_.queues) {
    absl::StatusOr<std::unique_ptr<Lane>> lane = devices_.CreateLane(queue->wake());
    if (!lane.ok()) return lane.status();
    queue->Start(std::move(*lane));
  }
  return devices_.Start();
}

absl::Status ServerImpl::Listen() {
  absl::StatusOr<Acceptor::Options> options = AcceptorOptionsFor(config_);
  if (!options.ok()) return options.status();
  absl::StatusOr<std::unique_ptr<Acceptor>> acceptor = Acceptor::Create(*options);
  if (!acceptor.ok()) return acceptor.status();
  parts_.acceptor = std::move(*acceptor);
  addresses_.service = parts_.acceptor->addresses();
  if (IsSet(config_.health_address)) {
    addresses_.health = addresses_.service.back();
    addresses_.service.pop_back();
    parts_.health_server = std::make_unique<HealthServer>(state_.health, health_connections_);
    return parts_.health_server->Start();
  }
  return absl::OkStatus();
}

std::vector<Acceptor::Destination> ServerImpl::Destinations() {
  std::vector<Acceptor::Destination> destinations(kDestinations);
  Acceptor::Destination& plain = destinations[kPlainDestination];
  Acceptor::Destination& tls = destinations[kTlsDestination];
  Acceptor::Destination& health = destinations[kHealthDestination];
  std::vector<grpc::Server*> servers;
  std::vector<std::unique_ptr<TlsHandoff::Acceptor>> tls_acceptors;
  for (const auto& queue : parts_.queues) {
    servers.push_back(queue->server().grpc());
    if (secrets_->tls() != nullptr) tls_acceptors.push_back(queue->server().TakeTlsAcceptor());
  }
  plain.handoff = std::make_unique<PlainHandoff>(std::move(servers));
  plain.connections = tls.connections = &connections_;
  plain.max_connections = tls.max_connections = state_.info.limits().max_connections();
  plain.max_streams = tls.max_streams = state_.info.limits().max_concurrent_streams_per_connection();
  plain.run = tls.run = [this](std::size_t server, std::function<void()> hand_over) {
    parts_.queues[server]->RunSoon(std::move(hand_over));
  };
  if (!tls_acceptors.empty()) tls.handoff = std::make_unique<TlsHandoff>(std::move(tls_acceptors));
  health.connections = &health_connections_;
  if (parts_.health_server != nullptr) {
    health.handoff = std::make_unique<PlainHandoff>(std::vector<grpc::Server*>{parts_.health_server->grpc()});
    health.max_connections = HealthServer::kMaxConnections;
    health.max_streams = HealthServer::kMaxStreams;
    health.while_draining = true;
    health.displaces = true;
    health.run = [this](std::size_t /*server*/, std::function<void()> hand_over) {
      parts_.health_server->RunSoon(std::move(hand_over));
    };
  }
  return destinations;
}

absl::Status ServerImpl::Start() {
  absl::StatusOr<std::unique_ptr<Secrets>> secrets = Secrets::Load(config_);
  if (!secrets.ok()) return secrets.status();
  secrets_ = std::move(*secrets);
  state_.tokens = secrets_->tokens();
  if (IsSet(config_.oip_shared_memory)) {
    absl::StatusOr<std::unique_ptr<SharedFiles>> files = SharedFiles::Open(config_.oip_shared_memory);
    if (!files.ok()) return files.status();
    shared_files_ = std::move(*files);
  }
  state_.slow_requests.SetThreshold(config_.slow_request);
  if (absl::Status status = Listen(); !status.ok()) return status;
  state_.limits = WireLimitsFor(config_);
  state_.info = ServerInfoFor(config_, executor_->name(), executor_->devices());
  state_.limits.max_tensor_bytes = state_.info.regions().max_tensor_bytes();
  state_.max_in_flight_per_stream = state_.info.limits().max_in_flight_per_stream();
  state_.describe_devices = [this](v1::GetServerInfoResponse* info) { DescribeDevices(devices_.devices(), info); };
  if (absl::Status status = StartMetrics(); !status.ok()) return status;
  if (absl::Status status = StartRegions(); !status.ok()) return status;
  if (absl::Status status = StartSpans(); !status.ok()) return status;
  if (absl::Status status = BuildGrpc(); !status.ok()) return status;
  if (absl::Status status = StartThreads(); !status.ok()) return status;
  if (faults_ != nullptr) TakeSlabs(faults_->faults().slabs_left);
  parts_.metrics->SetGauges(GaugesOf(state_, devices_.devices(), parts_.queues, parts_.regions.get(), config_));
  state_.health.AddListener([this] {
    for (const auto& queue : parts_.queues) queue->RequestAttention();
    if (parts_.health_server != nullptr) parts_.health_server->RequestAttention();
  });
  state_.health.SetUnsafeTesting(config_.unsafe_testing);
  SetGuardLimits(config_);
  parts_.acceptor->Start(Destinations());
  parts_.sweeper = std::make_unique<Sweeper>(state_, devices_, *secrets_, parts_.queues, config_.unsafe_testing);
  state_.health.SetReady(true);
  Announce(config_, *secrets_, addresses_);
  return absl::OkStatus();
}

// By a fault: all slabs but `left` (0: all stay) are taken and never come back.
void ServerImpl::TakeSlabs(std::uint64_t left) {
  if (left == 0 || left >= arena_.slabs_total()) return;
  (void)arena_.TryReserve((arena_.slabs_total() - left) * config_.slab_bytes);
}

ServerImpl::~ServerImpl() {
  drain_.Abort();
  parts_.acceptor.reset();
  parts_.health_server.reset();
  state_.long_work.Stop();  // which refers to the threads' calls
  parts_.queues.clear();
  parts_.regions.reset();
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
  Introduce(config, **executor);
  auto server = std::make_unique<ServerImpl>(config, std::move(plan), std::move(*executor));
  if (absl::Status status = server->Start(); !status.ok()) return status;
  return server;
}

}  // namespace softmax::server
