{{- /* A value as a text of YAML, however it was given (values file, --set, --set-string). Numbers pass through toJson,
because Go's printing of a values file's numbers makes 5.36870912e+08 of 536870912. */}}
{{- define "softmax.text" -}}
{{- if kindIs "string" . }}{{ quote . }}{{ else }}{{ toJson . | quote }}{{ end }}
{{- end }}

{{- /* A map whose values are texts, a line each. */}}
{{- define "softmax.texts" -}}
{{- range $name, $value := . }}
{{ quote $name }}: {{ include "softmax.text" $value }}
{{- end }}
{{- end }}

{{- /* Of every object; also what selects the pods. */}}
{{- define "softmax.labels" -}}
app.kubernetes.io/name: softmax-server
app.kubernetes.io/instance: {{ quote .Release.Name }}
{{- end }}

{{- /* Every flag can be an environment variable. The two that say how a pod ends are added by who knows its time. */}}
{{- define "softmax.env" -}}
{{- $cuda := eq .Values.backend "cuda" }}
- {name: SOFTMAX_ADDRESS, value: ":50051"}
- {name: SOFTMAX_METRICS_ADDRESS, value: ":9400"}
- {name: SOFTMAX_BACKEND, value: {{ quote .Values.backend }}}
- {name: SOFTMAX_THREADS, value: {{ int64 .Values.threads | default (ternary 8 2 $cuda) | quote }}}
- {name: SOFTMAX_CPU_THREADS, value: {{ int64 .Values.cpuThreads | quote }}}
- {name: SOFTMAX_FILLER_THREADS, value: {{ int64 .Values.fillerThreads | default (ternary 4 1 $cuda) | quote }}}
- {name: SOFTMAX_ARENA_BYTES, value: {{ include "softmax.text" .Values.arenaBytes }}}
- {name: SOFTMAX_MEMORY_QUOTA, value: {{ include "softmax.text" .Values.memoryQuota }}}
- {name: SOFTMAX_MAX_CONNECTION_AGE, value: {{ quote .Values.maxConnectionAge }}}
- {name: SOFTMAX_LOG_FORMAT, value: json}
{{- if $cuda }}
- {name: CUDA_CACHE_PATH, value: /var/cache/cuda}
{{- end }}
{{- range $name, $value := .Values.env }}
- {name: {{ quote $name }}, value: {{ include "softmax.text" $value }}}
{{- end }}
{{- end }}

{{- /* Probes by the health service; they know neither TLS nor tokens, so beside those it has a port of its own. */}}
{{- define "softmax.probes" -}}
{{- $port := ternary 50051 8081 (and (eq .Values.tls.secretName "") (eq .Values.tokens.secretName "")) }}
startupProbe:
  grpc: {port: {{ $port }}, service: readiness}
  periodSeconds: 1
  timeoutSeconds: 1
  failureThreshold: 300
readinessProbe:
  grpc: {port: {{ $port }}, service: readiness}
  periodSeconds: 2
  timeoutSeconds: 1
  failureThreshold: 1
livenessProbe:
  grpc: {port: {{ $port }}, service: liveness}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}

{{- define "softmax.resources" -}}
{{- $cuda := eq .Values.backend "cuda" }}
resources:
  requests:
    cpu: {{ include "softmax.text" (.Values.cores | default (ternary "16" "4" $cuda)) }}
    memory: {{ include "softmax.text" .Values.memory }}
  limits:
    memory: {{ include "softmax.text" .Values.memory }}
    {{- if $cuda }}
    {{ quote .Values.gpu.resource }}: {{ int64 .Values.gpu.count | quote }}
    {{- end }}
{{- end }}

{{- /* Which nodes, and with which secrets the image is pulled. */}}
{{- define "softmax.placement" -}}
{{- if .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson .Values.imagePullSecrets }}
{{- end }}
{{- if .Values.nodeSelector }}
nodeSelector:
  {{- include "softmax.texts" .Values.nodeSelector | nindent 2 }}
{{- end }}
{{- if or (eq .Values.backend "cuda") .Values.tolerations }}
tolerations:
  {{- if eq .Values.backend "cuda" }}
  - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
  {{- end }}
  {{- range .Values.tolerations }}
  - {{ toJson . }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* 65532, or any id that the cluster gives: the image's files can be read by everybody. */}}
{{- define "softmax.user" -}}
{{- if .Values.userId }}
runAsUser: {{ int64 .Values.userId }}
{{- end }}
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "softmax.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
