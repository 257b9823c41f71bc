{{- define "galvo.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Names leave room for the longest suffix, "-migrate". */}}
{{- define "galvo.fullname" -}}
{{- $name := include "galvo.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "galvo.selectorLabels" -}}
app.kubernetes.io/name: {{ include "galvo.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "galvo.labels" -}}
{{ include "galvo.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "galvo.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "galvo.isSqlite" -}}
{{- if eq .Values.database.kind "sqlite" }}true{{ end -}}
{{- end -}}

{{/* The Secret that the chart creates. */}}
{{- define "galvo.secretName" -}}
{{ include "galvo.fullname" . }}-created
{{- end -}}

{{/*
References to Secrets, as "NAME KEY", or nothing. A Secret that exists wins over one that the chart creates.
*/}}
{{- define "galvo.databaseSecret" -}}
{{- if .Values.database.existingSecret -}}
{{ .Values.database.existingSecret }} {{ .Values.database.key }}
{{- else if and .Values.secrets.create .Values.secrets.databaseUrl -}}
{{ include "galvo.secretName" . }} database-url
{{- end -}}
{{- end -}}

{{- define "galvo.encryptionSecret" -}}
{{- if .Values.encryption.existingSecret -}}
{{ .Values.encryption.existingSecret }} {{ .Values.encryption.key }}
{{- else if and .Values.secrets.create .Values.secrets.encryptionKeys -}}
{{ include "galvo.secretName" . }} galvo.key
{{- end -}}
{{- end -}}

{{- define "galvo.redisSecret" -}}
{{- if .Values.redis.existingSecret -}}
{{ .Values.redis.existingSecret }} {{ .Values.redis.key }}
{{- else if and .Values.secrets.create .Values.secrets.redisUrl -}}
{{ include "galvo.secretName" . }} redis-url
{{- end -}}
{{- end -}}

{{/* An environment variable from a reference; takes a list of the variable and the reference. */}}
{{- define "galvo.secretVariable" -}}
{{- $reference := splitList " " (index . 1) -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index $reference 0 }}
      key: {{ index $reference 1 }}
{{- end -}}

{{- define "galvo.publicUrl" -}}
{{- if .Values.publicUrl -}}
{{ .Values.publicUrl | trimSuffix "/" }}
{{- else if .Values.ingress.enabled -}}
{{ ternary "https" "http" .Values.ingress.tls.enabled }}://{{ .Values.ingress.host }}{{ .Values.ingress.path | trimSuffix "/" }}
{{- end -}}
{{- end -}}

{{/* The settings that every command with the database needs. */}}
{{- define "galvo.databaseEnvironment" -}}
{{- if include "galvo.isSqlite" . -}}
- name: GALVO_DATABASE_URL
  value: sqlite:///var/lib/galvo/galvo.db?mode=rwc
{{- else -}}
{{ include "galvo.secretVariable" (list "GALVO_DATABASE_URL" (include "galvo.databaseSecret" .)) }}
- name: GALVO_DATABASE_CONNECTIONS
  value: {{ .Values.database.connections | quote }}
{{- end }}
{{- if include "galvo.encryptionSecret" . }}
- name: GALVO_SECRET_KEY_FILE
  value: /etc/galvo/keys/galvo.key
{{- end }}
{{- with .Values.settings.GALVO_LOG }}
- name: GALVO_LOG
  value: {{ . | quote }}
{{- end }}
{{- with .Values.settings.GALVO_LOG_FORMAT }}
- name: GALVO_LOG_FORMAT
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The volume with the keys. Files of Secrets belong to root, so the group reads them. */}}
{{- define "galvo.keyVolume" -}}
{{- with include "galvo.encryptionSecret" . -}}
{{- $reference := splitList " " . -}}
- name: keys
  secret:
    secretName: {{ index $reference 0 }}
    defaultMode: 0440
    items:
      - key: {{ index $reference 1 }}
        path: galvo.key
{{- end -}}
{{- end -}}

{{- define "galvo.keyMount" -}}
{{- if include "galvo.encryptionSecret" . -}}
- name: keys
  mountPath: /etc/galvo/keys
  readOnly: true
{{- end -}}
{{- end -}}

{{/* Where pods run, and as whom: the same for all pods. */}}
{{- define "galvo.podSettings" -}}
serviceAccountName: {{ .Values.serviceAccountName }}
automountServiceAccountToken: false
# Kubernetes would set variables for a Service called galvo, such as GALVO_PORT.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Combinations of values that the schema cannot refuse. */}}
{{- define "galvo.check" -}}
{{- if include "galvo.isSqlite" . -}}
{{- if .Values.autoscaling.enabled -}}
{{- fail "autoscaling.enabled: an SQLite database has one pod; use database.kind=postgresql" -}}
{{- end -}}
{{- else -}}
{{- if not (include "galvo.databaseSecret" .) -}}
{{- fail "database.existingSecret: name the Secret with the URL of PostgreSQL, or set database.kind=sqlite" -}}
{{- end -}}
{{- if not (include "galvo.encryptionSecret" .) -}}
{{- fail "encryption.existingSecret: name the Secret with the key file; `galvo key generate` prints one" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled: needs metrics.enabled=true" -}}
{{- end -}}
{{- range $name, $_ := .Values.secretSettings -}}
{{- if hasKey $.Values.secrets.settings $name -}}
{{- fail (printf "secretSettings.%s: is in secrets.settings, too" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
