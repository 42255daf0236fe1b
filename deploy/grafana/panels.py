"""The rows and panels of the dashboard: (title, kind, unit, what it shows, [(query, legend)])."""

# Of the servers chosen in the dashboard's two lists.
WHERE = 'job=~"$job",instance=~"$instance"'
SERVING = 'method!~"GetServerInfo|Control",' + WHERE


def rate(metric, labels=WHERE):
    return f"rate({metric}{{{labels}}}[$__rate_interval])"


def quantiles(metric, labels=WHERE, of=("0.5", "0.9", "0.99", "0.999")):
    return [(f"histogram_quantile({q}, sum by (le) ({rate(metric + '_bucket', labels)}))", f"p{float(q) * 100:g}")
            for q in of]


def mean(metric, labels=WHERE):
    return f"sum({rate(metric + '_sum', labels)}) / sum({rate(metric + '_count', labels)})"


def gauge(metric, labels=""):
    return f"{metric}{{{labels + ',' if labels else ''}{WHERE}}}"


OK, NOT_OK = 'code="OK",' + WHERE, 'code!="OK",' + WHERE
COPIED_IN, COPIED_OUT = 'direction="in",' + WHERE, 'direction="out",' + WHERE
USED, HELD, TOTAL = 'state="used"', 'state="held_by_answers"', 'state="total"'
FAILURES = 'code=~"UNKNOWN|INTERNAL|DATA_LOSS|ABORTED",'

ROWS = [
    ("Now", [
        ("Ready", "stat", "short", "Servers that take requests, of those that Prometheus scrapes",
         [(f"sum({gauge('softmax_ready')})", "ready"), (f"count({gauge('softmax_ready')})", "all")]),
        ("Requests", "stat", "reqps", "Answers a second",
         [(f"sum({rate('softmax_requests_total', SERVING)})", "")]),
        ("Failures", "stat", "percentunit", "Answers that are the server's failures (INTERNAL and the like)",
         [(f"(sum({rate('softmax_requests_total', FAILURES + SERVING)}) or vector(0))"
           f" / sum({rate('softmax_requests_total', SERVING)})", "")]),
        ("p99", "stat", "s", "From a request's last byte to its answer handed to the transport",
         [quantiles("softmax_request_duration_seconds", SERVING, ("0.99",))[0]]),
        ("In flight", "stat", "short", "Requests received and not yet answered",
         [(f"sum({gauge('softmax_requests_in_flight')})", "")]),
        ("Degraded or testing", "stat", "short", "Servers that lost a device, or whose answers are not to be trusted",
         [(f"sum({gauge('softmax_degraded')})", "degraded"),
          (f"sum({gauge('softmax_unsafe_testing')})", "unsafe testing")]),
    ]),
    ("Traffic", [
        ("Requests by method", "lines", "reqps", "",
         [(f"sum by (method) ({rate('softmax_requests_total')})", "{{method}}")]),
        ("Answers by code", "bars", "reqps", "Codes that stand for a problem; OK is left out",
         [(f"sum by (code) ({rate('softmax_requests_total', NOT_OK)}) "
           f"or sum by (code) (0 * {rate('softmax_requests_total', OK)})", "{{code}}")]),
        ("Refused by reason", "bars", "reqps", "Requests refused before they ran",
         [(f"sum by (reason) ({rate('softmax_requests_rejected_total')})", "{{reason}}")]),
        ("Tensor bytes", "lines", "Bps", "Read and written by batches",
         [(f"sum({rate('softmax_input_bytes_total')})", "in"), (f"sum({rate('softmax_output_bytes_total')})", "out")]),
        ("Rows", "lines", "rowsps", "Rows of softmax a second", [(f"sum({rate('softmax_rows_total')})", "rows")]),
        ("Requests by server", "lines", "reqps", "Clients that balance send about the same to each",
         [(f"sum by (instance) ({rate('softmax_requests_total', SERVING)})", "{{instance}}")]),
    ]),
    ("Latency", [
        ("Request time", "lines", "s", "Inside the server, all methods that compute",
         quantiles("softmax_request_duration_seconds", SERVING)),
        ("Request time by method, p99", "lines", "s", "",
         [("histogram_quantile(0.99, sum by (method, le) "
           f"({rate('softmax_request_duration_seconds_bucket', SERVING)}))", "{{method}}")]),
        ("Stages, mean", "stacked", "s", "Waiting for memory, in an open batch, on the device",
         [(mean("softmax_queue_duration_seconds"), "queue"), (mean("softmax_batch_wait_duration_seconds"), "batch"),
          (mean("softmax_execution_duration_seconds"), "execution")]),
        ("Stages, p99", "lines", "s", "",
         [(quantiles(f"softmax_{stage}_duration_seconds", WHERE, ("0.99",))[0][0], stage)
          for stage in ("queue", "batch_wait", "execution")]),
        ("Request times", "heatmap", "s", "How many requests took how long",
         [(f"sum by (le) (increase(softmax_request_duration_seconds_bucket{{{SERVING}}}[$__rate_interval]))",
           "{{le}}")]),
    ]),
    ("Batches", [
        ("Requests a batch", "lines", "short", "More of them share a launch when more are in flight",
         [(mean("softmax_batch_requests"), "mean")] + quantiles("softmax_batch_requests", WHERE, ("0.5", "0.99"))),
        ("Rows a batch", "lines", "short", "",
         [(mean("softmax_batch_rows"), "mean")] + quantiles("softmax_batch_rows", WHERE, ("0.5", "0.99"))),
        ("Bytes a batch", "lines", "bytes", "Tensors in and out together",
         [(mean("softmax_batch_bytes"), "mean")] + quantiles("softmax_batch_bytes", WHERE, ("0.5", "0.99"))),
        ("Batches by why they were closed", "stacked", "ops",
         "idle: nothing was in flight; drained: all that had come was taken; large: a request of its own",
         [(f"sum by (reason) ({rate('softmax_batches_total')})", "{{reason}}")]),
    ]),
    ("Memory and queue", [
        ("Arena", "lines", "percentunit", "Share of it in use, and held by answers that clients have not read yet",
         [(f"sum by (instance) ({gauge('softmax_slabs', USED)}) / "
           f"sum by (instance) ({gauge('softmax_slabs', TOTAL)})", "{{instance}} used"),
          (f"sum by (instance) ({gauge('softmax_slabs', HELD)}) / "
           f"sum by (instance) ({gauge('softmax_slabs', TOTAL)})", "{{instance}} unread answers")]),
        ("Receive memory", "lines", "short",
         "Blocks of 64 KiB in use, and all (none on a CPU); with none left, messages are copied to where the GPU "
         "reads them",
         [(gauge("softmax_receive_blocks", USED), "{{instance}} used"),
          (gauge("softmax_receive_blocks", TOTAL), "{{instance}} all")]),
        ("Requests waiting for memory", "lines", "short", "", [(gauge("softmax_requests_queued"), "{{instance}}")]),
        ("Bytes waiting for memory", "lines", "bytes", "", [(gauge("softmax_queued_bytes"), "{{instance}}")]),
        ("Bytes of answers not read", "lines", "bytes", "Outside the arena, at most --max-unread-bytes",
         [(gauge("softmax_unread_bytes"), "{{instance}}")]),
        ("Host copies a byte", "lines", "short",
         "In: 1 at most, 0 what a GPU read where it arrived. Out: 0, but for small answers and slow readers",
         [(f"sum({rate('softmax_host_copied_bytes_total', COPIED_IN)}) / "
           f"sum({rate('softmax_input_bytes_total')})", "in"),
          (f"sum({rate('softmax_host_copied_bytes_total', COPIED_OUT)}) / "
           f"sum({rate('softmax_output_bytes_total')})", "out")]),
        ("Answers, by what was asked for", "lines", "reqps", "The whole tensor, or parts of a summary",
         [(f"sum by (kind) ({rate('softmax_answers_total')})", "{{kind}}")]),
        ("Bytes that summaries saved", "lines", "Bps", "What their whole answers would have been larger by",
         [(f"sum({rate('softmax_answer_saved_bytes_total')})", "saved")]),
        ("Regions' memory", "lines", "bytes", "Shared with processes of the node",
         [(gauge("softmax_region_bytes"), "{{instance}} {{memory}}")]),
        ("Regions", "lines", "short", "",
         [(gauge("softmax_regions"), "{{instance}} {{memory}}"),
          (gauge("softmax_region_connections"), "{{instance}} connections")]),
        ("Regions refused", "lines", "short", "A second",
         [(rate("softmax_regions_refused_total"), "{{instance}} {{reason}}")]),
        ("Traced requests", "lines", "short", "A second, and spans that the collector did not keep",
         [(rate("softmax_traced_requests_total"), "{{instance}} {{outcome}}"),
          (rate("softmax_trace_spans_rejected_total"), "{{instance}} spans not kept")]),
        ("Connections", "lines", "short", "", [(gauge("softmax_connections"), "{{instance}}")]),
        ("Connections ended", "lines", "short",
         "A second, for what their clients sent: calls, frames, headers or messages that no use needs",
         [(rate("softmax_connections_ended_total"), "{{instance}} {{reason}}")]),
        ("Queue threads, how late", "lines", "s",
         "To a wake-up, ten a second each. Clients wait as long, and the server's own request times do not show it",
         quantiles("softmax_queue_thread_lag_seconds", WHERE, ("0.5", "0.99", "0.999"))),
        ("Queue threads, how busy", "lines", "percentunit", "Share of a core; a thread that polls a GPU is always busy",
         [(rate("softmax_queue_thread_busy_seconds_total"), "{{instance}} {{thread}}")]),
        ("Resident memory", "lines", "bytes", "", [(gauge("process_resident_memory_bytes"), "{{instance}}")]),
        ("CPU", "lines", "short", "Cores", [(rate("process_cpu_seconds_total"), "{{instance}}")]),
        ("Open files", "lines", "short", "", [(gauge("process_open_fds"), "{{instance}}")]),
        ("Threads", "lines", "short", "", [(gauge("process_threads"), "{{instance}}")]),
    ]),
    ("GPU", [
        ("Devices that serve", "lines", "short", "0: lost, or being tested because another one was",
         [(gauge("softmax_device_serving"), "{{instance}} device {{device}}")]),
        ("Bytes in flight", "lines", "bytes", "Batches go to the device with the fewest",
         [(gauge("softmax_device_in_flight_bytes"), "{{instance}} device {{device}}")]),
        ("Utilization", "lines", "percentunit", "Share of time in which a kernel ran; says nothing of how well",
         [(gauge("softmax_gpu_utilization_ratio"), "{{instance}} GPU {{gpu}}")]),
        ("GPU memory", "lines", "bytes", "Of any process",
         [(gauge("softmax_gpu_memory_bytes"), "{{instance}} GPU {{gpu}} {{state}}")]),
        ("Power", "lines", "watt", "",
         [(gauge("softmax_gpu_power_watts"), "{{instance}} GPU {{gpu}}"),
          (gauge("softmax_gpu_power_limit_watts"), "{{instance}} GPU {{gpu}} limit")]),
        ("Temperature", "lines", "celsius", "",
         [(gauge("softmax_gpu_temperature_celsius"), "{{instance}} GPU {{gpu}}")]),
        ("Clock", "lines", "hertz", "", [(gauge("softmax_gpu_clock_hertz"), "{{instance}} GPU {{gpu}}")]),
        ("Slowed down", "lines", "short", "1 while the clock is held down for this reason",
         [(gauge("softmax_gpu_throttled"), "{{instance}} GPU {{gpu}} {{reason}}")]),
        ("Memory errors", "lines", "short", "Of the last hour",
         [(f"increase(softmax_gpu_ecc_errors_total{{{WHERE}}}[1h])", "{{instance}} GPU {{gpu}} {{kind}}")]),
    ]),
    ("What runs", [
        ("Versions", "table", "short", "", [(gauge("softmax_build_info"), "")]),
        ("GPUs", "table", "short", "", [(gauge("softmax_gpu_info"), "")]),
        ("Settings", "table", "short", "Bytes, seconds and counts", [(gauge("softmax_setting"), "")]),
        ("Up since", "lines", "s", "", [(f"time() - {gauge('process_start_time_seconds')}", "{{instance}}")]),
    ]),
]

# The rows that are open at first; the others are a click away.
OPEN = ("Now", "Traffic")

# (yellow from, red from) by panel, where the alerts of softmax.rules.yaml have a bound; yours to choose, as theirs.
THRESHOLDS = {
    "Failures": (0.0005, 0.001),
    "p99": (0.025, 0.05),
    "Degraded or testing": (1, 1),
    "Request time": (0.025, 0.05),
    "Arena": (0.8, 0.95),
    "Queue threads, how late": (0.05, 0.1),
}
