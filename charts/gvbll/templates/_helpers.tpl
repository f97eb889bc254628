{{- define "gvbll.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "gvbll.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: worker
{{- end }}

{{- define "gvbll.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "gvbll.image" -}}
{{- if and (eq .Chart.AppVersion "dev") (not .Values.image.tag) (not .Values.image.digest) }}
{{- fail "image.tag is required: this chart is of a checkout, and the image's version is what you gave to docker build" }}
{{- end -}}
{{ .Values.image.repository | required "image.repository is required: an image that you built and pushed (docs/kubernetes.md), such as registry.example/gvbll" }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "gvbll.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "gvbll.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- /* The environment variable of a flag is GVBLL_ and its name in capitals. */}}
{{- define "gvbll.kafkaEnv" -}}
- {name: GVBLL_BROKERS, value: {{ join "," .Values.kafka.brokers | required "kafka.brokers is required: the addresses of your Kafka, such as {kafka:9092}" | quote }}}
- {name: GVBLL_PREFIX, value: {{ .Values.kafka.prefix | quote }}}
{{- with .Values.kafka.tls }}
{{- if .enabled }}
- {name: GVBLL_TLS, value: "true"}
{{- if .secret }}
- {name: GVBLL_TLS_CA, value: /tls/ca.crt}
{{- if .clientCertificate }}
- {name: GVBLL_TLS_CERT, value: /tls/tls.crt}
- {name: GVBLL_TLS_KEY, value: /tls/tls.key}
{{- end }}
{{- end }}
{{- if .serverName }}
- {name: GVBLL_TLS_SERVER_NAME, value: {{ .serverName | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.kafka.sasl }}
{{- if .mechanism }}
- {name: GVBLL_SASL_MECHANISM, value: {{ .mechanism | quote }}}
{{- if .tokenSecret }}
- {name: GVBLL_SASL_TOKEN_FILE, value: /sasl/token}
{{- else }}
- {name: GVBLL_SASL_USER, value: {{ required "kafka.sasl.user is required: the user that logs in" .user | quote }}}
- {name: GVBLL_SASL_PASSWORD_FILE, value: /sasl/password}
{{- end }}
{{- if .tokenURL }}
- {name: GVBLL_SASL_TOKEN_URL, value: {{ .tokenURL | quote }}}
{{- end }}
{{- if .tokenScope }}
- {name: GVBLL_SASL_TOKEN_SCOPE, value: {{ .tokenScope | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gvbll.kafkaMounts" -}}
{{- if and .Values.kafka.tls.enabled .Values.kafka.tls.secret }}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end }}
{{- if .Values.kafka.sasl.mechanism }}
- {name: sasl, mountPath: /sasl, readOnly: true}
{{- end }}
{{- end }}

{{- define "gvbll.kafkaVolumes" -}}
{{- if and .Values.kafka.tls.enabled .Values.kafka.tls.secret }}
- name: tls
  secret: {secretName: {{ .Values.kafka.tls.secret | quote }}, defaultMode: 0440}
{{- end }}
{{- with .Values.kafka.sasl }}
{{- if .mechanism }}
- name: sasl
  secret:
    defaultMode: 0440
    {{- if .tokenSecret }}
    secretName: {{ .tokenSecret | quote }}
    items: [{key: {{ .tokenKey | quote }}, path: token}]
    {{- else }}
    secretName: {{ required "kafka.sasl.passwordSecret is required: the secret that holds the password" .passwordSecret | quote }}
    items: [{key: {{ .passwordKey | quote }}, path: password}]
    {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gvbll.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gvbll.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "gvbll.probe" -}}
{{- $root := index . 0 -}}
path: {{ index . 1 }}
port: http
{{- if $root.Values.http.tls }}
scheme: HTTPS
{{- end }}
{{- end }}
