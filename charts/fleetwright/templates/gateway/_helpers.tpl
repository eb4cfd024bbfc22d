{{- define "fleetwright.gateway" -}}
{{ .Release.Name }}-gateway
{{- end }}

{{- define "fleetwright.gatewayClusterName" -}}
{{ .Release.Namespace }}-{{ include "fleetwright.gateway" . }}
{{- end }}

{{- define "fleetwright.gatewayKeys" -}}
{{ include "fleetwright.gateway" . }}-keys
{{- end }}

{{/* The address of the gateway inside the cluster, which is also the issuer of its tokens. */}}
{{- define "fleetwright.gatewayURL" -}}
http://{{ include "fleetwright.gateway" . }}.{{ .Release.Namespace }}
{{- end }}

{{- define "fleetwright.gatewaySelector" -}}
app.kubernetes.io/name: fleetwright
app.kubernetes.io/component: gateway
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "fleetwright.gatewayLabels" -}}
{{ include "fleetwright.gatewaySelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The gateway reads agents, their pods with the owners between them, and their cards. It patches one annotation. */}}
{{- define "fleetwright.gatewayRules" -}}
# The ValidatingAdmissionPolicy of the same name limits the patch to the annotation that wakes an agent.
- apiGroups: [fleetwright.dev]
  resources: [agents]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [pods, configmaps]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [replicasets, deployments]
  verbs: [list, watch]
{{- end }}

{{/* The environment by which the operator knows the gateway. */}}
{{- define "fleetwright.gatewayOperatorEnvironment" -}}
- name: FLEETWRIGHT_GATEWAY_URL
  value: {{ include "fleetwright.gatewayURL" . | quote }}
- name: FLEETWRIGHT_GATEWAY_PUBLIC_URL
  value: {{ .Values.gateway.publicURL | quote }}
- name: FLEETWRIGHT_GATEWAY_PODS
  value: {{ include "fleetwright.pods" (dict "namespace" .Release.Namespace "podLabels" (include "fleetwright.gatewaySelector" . | fromYaml)) | quote }}
- name: FLEETWRIGHT_GATEWAY_KEYS_NAME
  value: {{ include "fleetwright.gatewayKeys" . }}
- name: FLEETWRIGHT_GATEWAY_KEY_TTL
  value: {{ .Values.gateway.keyTTL }}
- name: FLEETWRIGHT_GATEWAY_KEY_OVERLAP
  value: {{ .Values.gateway.keyOverlap }}
{{- end }}

{{/* A NetworkPolicy peer for the pods of all agents. */}}
{{- define "fleetwright.gatewayAgents" -}}
namespaceSelector:
  {{- if .Values.namespaces }}
  matchExpressions:
    - {key: kubernetes.io/metadata.name, operator: In, values: {{ .Values.namespaces | toJson }}}
  {{- else }}
  {}
  {{- end }}
podSelector:
  matchLabels: {{- include "fleetwright.agents" . | nindent 4 }}
{{- end }}
