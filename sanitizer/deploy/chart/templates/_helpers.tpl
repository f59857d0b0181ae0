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

{{- /* The port of that. */}}
{{- define "gwp-race.collector-port" -}}
{{- $url := urlParse (include "gwp-race.collector" .) }}
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
{{- with include "gwp-race.collector" . }}
agent = "/run/gwp-race-agent/agent.sock"

[agent]
collector = {{ . | quote }}
outbox = "/var/lib/gwp-race-agent/outbox.db"
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
{{- end }}
{{- end }}

[control]
socket = "/run/gwp-race/fleet.sock"
pause = "/run/gwp-race/pause"
{{- end }}

{{- /* Containers that need no rights. Files of Secrets are root's, and its group's to read. */}}
{{- define "gwp-race.without-rights" -}}
privileged: false
runAsNonRoot: true
runAsUser: {{ .user }}
runAsGroup: 0
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile: {{- toYaml .seccompProfile | nindent 2 }}
{{- end }}
