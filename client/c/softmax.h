#pragma once

#include <stddef.h>
#include <stdint.h>

// Softmax over the network, for programs in any language: libsoftmax_client.so. docs/client.md says what the options,
// limits and errors mean; this is the same library.
//
// Functions that return int32_t return a gRPC status code, 0 for OK. `error`, where there is one, is set to NULL when
// OK, and else to an error that softmax_error_free frees; NULL: it is not wanted. Nothing throws, and nothing but what
// a function returns has to be freed.
//
// Threads may share a client, a queue and a stream. Whatever is freed must not be in use by another thread. Nothing may
// be used in a process that was forked after a client had been made.
//
// Memory is the caller's, borrowed, and must stay until the call has returned, or the event of an asynchronous one was
// taken. Texts are UTF-8 and end with a 0.
//
// Structures begin with their size as the caller was compiled: set it to sizeof. Later versions add fields at the end
// only, and all zeros means what earlier ones did.

#ifdef __cplusplus
extern "C" {
#endif

typedef struct softmax_client softmax_client;
typedef struct softmax_error softmax_error;
typedef struct softmax_queue softmax_queue;
typedef struct softmax_stream softmax_stream;
typedef struct softmax_region softmax_region;

// Asked some 20 times a second by the thread that waits in a blocking call. Not 0: the call is to end, with CANCELLED.
typedef int32_t (*softmax_hook)(void* context);
// Puts a token into those bytes and returns its length; below 0: there is none, and the call fails. From any thread.
typedef int64_t (*softmax_token)(void* context, char* place, size_t room);

// ClientOptions of client/softmax_client/options.h, whose defaults softmax_client_options_init sets.
typedef struct softmax_client_options {
  size_t size;
  const char* target;
  int64_t deadline_ns;
  int64_t max_receive_bytes;  // -1: whatever the server may send
  int32_t connections;
  int32_t wait_for_ready;
  int32_t health_checks;
  int32_t regions;  // 1: large tensors go through regions by themselves
  int64_t keepalive_time_ms;
  int64_t keepalive_timeout_ms;
  const char* authority;       // NULL: the target's host
  const char* regions_socket;  // NULL: where the server says
  softmax_token token;         // NULL: no token
  void* token_context;
  int32_t use_tls;
  const char* root_certificates;  // NULL: those that this machine trusts
  const char* certificate_chain;
  const char* private_key;
  int32_t max_attempts;
  int64_t initial_backoff_ms;
  int64_t max_backoff_ms;
  double multiplier;
  double max_tokens;
  double token_ratio;
} softmax_client_options;

enum { SOFTMAX_FLOAT32 = 1, SOFTMAX_FLOAT16 = 2, SOFTMAX_BFLOAT16 = 3, SOFTMAX_FLOAT64 = 4 };
enum { SOFTMAX_SOFTMAX = 1, SOFTMAX_LOG_SOFTMAX = 2 };
enum { SOFTMAX_MAX_RANK = 8 };

// What is asked, without the tensor's memory: one may serve many calls, and threads may share it.
typedef struct softmax_request {
  size_t size;
  int32_t dtype;         // of the input
  int32_t rank;          // 1 to SOFTMAX_MAX_RANK
  const int64_t* shape;  // `rank` dimensions; row-major without gaps
  int32_t operation;
  int32_t axis;       // negative counts from the end
  int32_t has_scale;  // 0: 1
  double scale;
  int32_t output_dtype;     // 0: the input's
  const uint32_t* lengths;  // one for each row, or NULL
  size_t lengths_count;
  int64_t timeout_ns;  // 0: the client's deadline; a stream's requests and a batch's have none of their own
  // A summary instead of the tensor, if one of these is wanted.
  uint32_t top_k;
  const int32_t* indices;
  size_t indices_count;
  int32_t log_sum_exp;
  int32_t entropy;
  // Its caller's place in a trace, as W3C's Trace Context has it; NULL: in none. Requests of a stream and a batch have
  // their stream's.
  const char* traceparent;
  const char* tracestate;
} softmax_request;

// Of a stream, and of the one that a batch goes over. Both numbers are at least 1.
typedef struct softmax_stream_options {
  size_t size;
  size_t max_in_flight;             // requests that may be unanswered
  size_t max_requests_per_message;  // those that wait while a message is written share the next one
  int64_t timeout_ns;               // of all together; 0: a stream has none, a batch its client's deadline
  const char* traceparent;          // as softmax_request's, of all requests
  const char* tracestate;
} softmax_stream_options;

// An answer that has come: it lies in the output that was given with the request, unless there is an error.
typedef struct softmax_event {
  uint64_t tag;          // the request's
  softmax_error* error;  // to be freed; NULL: OK
  int32_t taken;         // 1: here is an event
} softmax_event;

void softmax_client_options_init(softmax_client_options* options);

// Does not connect. INVALID_ARGUMENT: an option is out of range.
int32_t softmax_client_new(const softmax_client_options* options, softmax_client** client, softmax_error** error);
// Ends what runs, streams included, with CANCELLED, and waits for that; later calls are FAILED_PRECONDITION. From any
// thread, any number of times.
void softmax_client_close(softmax_client* client);
// Closes. Its streams must have been freed; its regions may stay.
void softmax_client_free(softmax_client* client);

// Blocks. `output`: the answer's bytes, which may be the input; for a summary, those of softmax_summary_layout, aligned
// to 8. Unchanged when the call fails, unless it lies in a region. `hook` may be NULL.
int32_t softmax_run(softmax_client* client, const softmax_request* request, const void* input, void* output,
                    softmax_hook hook, void* context, softmax_error** error);
// Many over one stream. errors[i]: what the i-th came to, NULL: OK.
int32_t softmax_run_batch(softmax_client* client, const softmax_stream_options* options,
                          const softmax_request* const* requests, const void* const* inputs, void* const* outputs,
                          size_t count, softmax_error** errors, softmax_hook hook, void* context,
                          softmax_error** error);
// Returns at once; when OK, an event with that tag comes to the queue, which must stay till then.
int32_t softmax_start(softmax_client* client, const softmax_request* request, const void* input, void* output,
                      softmax_queue* queue, uint64_t tag, softmax_error** error);
// Of softmax_start: the event comes soon, with CANCELLED if it had not come yet.
void softmax_cancel(softmax_queue* queue, uint64_t tag);

// NULL: the system has no more descriptors.
softmax_queue* softmax_queue_new(void);
// Readable while an event is there: for poll() and event loops. The queue's own; only to be waited for.
int32_t softmax_queue_fd(const softmax_queue* queue);
// At most `room` events that are there, after waiting for the first one for so long. Their number.
size_t softmax_queue_take(softmax_queue* queue, softmax_event* events, size_t room, int64_t patience_ns);
void softmax_queue_free(softmax_queue* queue);

enum { SOFTMAX_NO_ROOM = -1 };

// Answers come to the queue, with a request's id as their tag; no other stream and no softmax_start may use it.
int32_t softmax_stream_open(softmax_client* client, const softmax_stream_options* options, softmax_queue* queue,
                            softmax_stream** stream, softmax_error** error);
// Waits so long while max_in_flight requests are unanswered; then SOFTMAX_NO_ROOM, without an error.
// ALREADY_EXISTS: that id is unanswered.
int32_t softmax_stream_send(softmax_stream* stream, uint64_t id, const softmax_request* request, const void* input,
                            void* output, int64_t patience_ns, softmax_error** error);
// Sent requests whose events are not in the queue yet.
size_t softmax_stream_unanswered(softmax_stream* stream);
// No more requests; blocks until all are answered. What the stream came to.
int32_t softmax_stream_finish(softmax_stream* stream, softmax_hook hook, void* context, softmax_error** error);
void softmax_stream_cancel(softmax_stream* stream);
// Cancels, and waits until every event is in the queue. Any number of times.
void softmax_stream_close(softmax_stream* stream);
void softmax_stream_free(softmax_stream* stream);

// Where the parts of a summary lie in its output: top values, top indices (int32_t), values at the indices,
// log-sum-exp, maximum, entropy (double where the input is, else float), each with its rows one after the other.
// Returns all bytes. The arrays may be NULL. 0: the request is wrong, or its tensor empty.
uint64_t softmax_summary_layout(const softmax_request* request, uint64_t offsets[6], uint64_t sizes[6]);

// What the server tells of itself, and what the client has done: JSON objects, freed by softmax_free.
int32_t softmax_server_info(softmax_client* client, char** json, softmax_error** error);
int32_t softmax_stats(softmax_client* client, char** json, softmax_error** error);
// UNAVAILABLE: there was no connection in that time.
int32_t softmax_wait_for_connection(softmax_client* client, int64_t timeout_ns, softmax_hook hook, void* context,
                                    softmax_error** error);

enum { SOFTMAX_HOST = -1, SOFTMAX_ANY_DEVICE = -2 };

// Memory that a server of this machine shares: inputs and outputs in it do not travel. `device`: SOFTMAX_HOST,
// SOFTMAX_ANY_DEVICE, or a number in the server's devices. client/softmax_client/region.h says more.
int32_t softmax_region_allocate(softmax_client* client, uint64_t bytes, int64_t device, softmax_region** region,
                                softmax_error** error);
void* softmax_region_data(const softmax_region* region);
uint64_t softmax_region_size(const softmax_region* region);        // at least what was asked for
int32_t softmax_region_cuda_device(const softmax_region* region);  // its number in this process; -1: host memory
int32_t softmax_region_write(const softmax_region* region, uint64_t offset, const void* from, uint64_t bytes,
                             softmax_error** error);
int32_t softmax_region_read(const softmax_region* region, uint64_t offset, void* to, uint64_t bytes,
                            softmax_error** error);
void softmax_region_free(softmax_region* region);
// 1: all of these bytes lie in one region of this client.
int32_t softmax_in_region(softmax_client* client, const void* data, uint64_t bytes);

int32_t softmax_error_code(const softmax_error* error);
const char* softmax_error_message(const softmax_error* error);  // the error's own
// When a busy server wants to be asked again; -1: it did not say.
int64_t softmax_error_retry_after_ms(const softmax_error* error);
void softmax_error_free(softmax_error* error);  // NULL: nothing
void softmax_free(void* memory);

#ifdef __cplusplus
}
#endif
