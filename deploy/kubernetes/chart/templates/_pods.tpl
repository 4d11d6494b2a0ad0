{{/* What pods of both roles share. */}}
{{- define "cutroom.pod" -}}
serviceAccountName: {{ .Release.Name }}
automountServiceAccountToken: false
terminationGracePeriodSeconds: 40
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "cutroom.container" -}}
imagePullPolicy: {{ .Values.images.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "cutroom.storage" -}}
{{- if .Values.storage.account }}
- { name: AZURE_STORAGE_ACCOUNT, value: {{ .Values.storage.account | quote }} }
{{- else }}
- name: AZURE_STORAGE_CONNECTION_STRING
  valueFrom: { secretKeyRef: { name: {{ .Values.storage.connectionStringSecret | quote }}, key: connectionString } }
{{- end }}
{{- with .Values.storage.prefix }}
- { name: CUTROOM_PREFIX, value: {{ . | quote }} }
{{- end }}
{{- end }}

{{/* The port of otlp.endpoint: its own, or that of its scheme. */}}
{{- define "cutroom.tracesPort" -}}
{{- $at := urlParse .Values.otlp.endpoint }}
{{- regexFind ":[0-9]+$" $at.host | trimPrefix ":" | default (eq $at.scheme "https" | ternary "443" "80") }}
{{- end }}

{{- define "cutroom.labels" -}}
app.kubernetes.io/name: cutroom
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
