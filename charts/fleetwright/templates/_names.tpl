{{- define "fleetwright.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}-operator
{{- end }}

{{- define "fleetwright.selector" -}}
app.kubernetes.io/name: fleetwright-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fleetwright.labels" -}}
{{ include "fleetwright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* What the operator may do where it looks after objects. One list for a ClusterRole and for Roles. */}}
{{- define "fleetwright.rules" -}}
- apiGroups: [fleetwright.dev]
  resources: [agents, skills, mcpservers]
  verbs: [get, list, watch]
- apiGroups: [fleetwright.dev]
  resources: [agents/status, skills/status, mcpservers/status]
  verbs: [patch]
# Owner references that block deletion need this where that admission plugin is on.
- apiGroups: [fleetwright.dev]
  resources: [agents/finalizers, skills/finalizers, mcpservers/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [configmaps, persistentvolumeclaims, secrets, serviceaccounts, services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
