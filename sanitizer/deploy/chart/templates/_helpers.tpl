{{- define "gwp-race.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "gwp-race.collector-name" -}}
{{ include "gwp-race.name" . }}-collector
{{- end }}

{{- define "gwp-race.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gwp-race.labels" -}}
{{ include "gwp-race.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "gwp-race.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "gwp-race.collector-image" -}}
{{- if .Values.collector.tag }}{{ .Values.image.repository }}:{{ .Values.collector.tag }}{{ else }}{{ include "gwp-race.image" . }}{{ end }}
{{- end }}

{{- /* Where the agent sends to; empty where there is no agent. */}}
{{- define "gwp-race.collector" -}}
{{- if .Values.agent.collector }}{{ .Values.agent.collector }}
{{- else if .Values.collector.enabled }}{{ ternary "http" "https" .Values.collector.insecure }}://{{ include "gwp-race.collector-name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.collector.port }}
{{- end }}
{{- end }}

{{- /* Whether there is an agent; empty where there is none. */}}
{{- define "gwp-race.agent" -}}
{{- if or (include "gwp-race.collector" .) .Values.agent.otlp.endpoint }}yes
{{- else if .Values.agent.metrics.port }}
{{- fail "agent.metrics.port: there is no agent that could tell figures: name agent.collector or agent.otlp.endpoint, or enable collector" }}
{{- end }}
{{- end }}

{{- /* The secrets of the agent, by the folders that they are mounted as. */}}
{{- define "gwp-race.agent-secrets" -}}
{{- with .Values.agent }}
{{- $all := dict "token" .token "ca" .ca "certificate" .certificate }}
{{- $all = merge $all (dict "otlp-headers" .otlp.headers "otlp-ca" .otlp.ca "otlp-certificate" .otlp.certificate) }}
{{- range $folder, $secret := $all }}
{{- with $secret.secretName }}
{{ $folder }}: {{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The port of an address. */}}
{{- define "gwp-race.port" -}}
{{- $url := urlParse . }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" }}
{{- $port | default (ternary "80" "443" (eq $url.scheme "http")) }}
{{- end }}

{{- define "gwp-race.fleet-toml" -}}
{{- if regexMatch "(?m)^\\s*\\[+\\s*[\"']?(export|agent|control)\\b" .Values.config }}
{{- fail "config: leave [export], [agent] and [control] to the chart: they have what the values agent and daemon say" }}
{{- end }}
{{- .Values.config | trim }}

[export]
store = "sqlite:/var/lib/gwp-race/races.db"
{{- if include "gwp-race.agent" . }}
agent = "/run/gwp-race-agent/agent.sock"

[agent]
outbox = "/var/lib/gwp-race-agent/outbox.db"
{{- with .Values.agent.metrics }}
{{- if .port }}
metrics = "{{ .address }}:{{ .port | int64 }}"
{{- end }}
{{- end }}
{{- with include "gwp-race.collector" . }}
collector = {{ . | quote }}
{{- end }}
{{- with $.Values.agent }}
{{- if .insecure }}
insecure = true
{{- end }}
{{- if .token.secretName }}
token = {{ printf "/etc/gwp-race-agent/token/%s" .token.key | quote }}
{{- end }}
{{- if .ca.secretName }}
ca = {{ printf "/etc/gwp-race-agent/ca/%s" .ca.key | quote }}
{{- end }}
{{- if .certificate.secretName }}
certificate = "/etc/gwp-race-agent/certificate/tls.crt"
key = "/etc/gwp-race-agent/certificate/tls.key"
{{- end }}
{{- with .otlp }}
{{- if .endpoint }}
{{- if and (hasPrefix "http://" .endpoint) (not .insecure) (not (regexMatch "^http://(localhost|127[.][0-9.]+|\\[::1\\])([:/]|$)" .endpoint)) }}
{{- fail "agent.otlp.endpoint: http:// to another machine can be read by others on the way; give https://, or agent.otlp.insecure where the network is safe" }}
{{- end }}

[agent.otlp]
endpoint = {{ .endpoint | quote }}
interval = {{ .interval | quote }}
{{- if .insecure }}
insecure = true
{{- end }}
{{- if .headers.secretName }}
headers = {{ printf "/etc/gwp-race-agent/otlp-headers/%s" .headers.key | quote }}
{{- end }}
{{- if .ca.secretName }}
ca = {{ printf "/etc/gwp-race-agent/otlp-ca/%s" .ca.key | quote }}
{{- end }}
{{- if .certificate.secretName }}
certificate = "/etc/gwp-race-agent/otlp-certificate/tls.crt"
key = "/etc/gwp-race-agent/otlp-certificate/tls.key"
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

[control]
socket = "/run/gwp-race/fleet.sock"
pause = "/run/gwp-race/pause"
{{- end }}

{{- /* Containers that need no rights. Files of Secrets are root's, and readable by the group of the pod (fsGroup), which is nobody else's. */}}
{{- define "gwp-race.without-rights" -}}
privileged: false
runAsNonRoot: true
runAsUser: {{ .user }}
runAsGroup: {{ .group }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile: {{- toYaml .seccompProfile | nindent 2 }}
{{- with .seLinuxOptions }}
seLinuxOptions: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
