{{- define "fleetwright.name" -}}
{{ .Release.Name }}-operator
{{- end }}

{{/* Services and labels have names that are shorter and simpler than those that helm accepts for releases. */}}
{{- define "fleetwright.checkName" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,44}[a-z0-9])?$" .Release.Name) -}}
{{- fail (printf "the release name %q must begin with a letter, have at most 46 characters, and contain only lower-case letters, digits and '-'; choose another one" .Release.Name) -}}
{{- end -}}
{{- end }}

{{/* The name of cluster-scoped objects. It includes the namespace, because releases in two namespaces may have the same name. */}}
{{- define "fleetwright.clusterName" -}}
{{ .Release.Namespace }}-{{ include "fleetwright.name" . }}
{{- end }}

{{- define "fleetwright.cardKeys" -}}
{{ include "fleetwright.name" . }}-card-keys
{{- end }}

{{- define "fleetwright.selector" -}}
app.kubernetes.io/name: fleetwright-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "fleetwright.labels" -}}
{{ include "fleetwright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Exactly the verbs that the operator uses. Server-side apply needs patch, and create if the object does not exist. */}}
{{- define "fleetwright.rules" -}}
# The owner reference to the parent of an agent needs patch. An admission policy denies every other change.
- apiGroups: [fleetwright.dev]
  resources: [agents]
  verbs: [get, list, watch, patch]
- apiGroups: [fleetwright.dev]
  resources: [skills, mcpservers]
  verbs: [get, list, watch]
# The operator creates Approvals and deletes them. Its patch removes a decision that the agent has refused.
- apiGroups: [fleetwright.dev]
  resources: [approvals]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [fleetwright.dev]
  resources: [agents/status, skills/status, mcpservers/status, approvals/status]
  verbs: [patch]
# Needed for owner references with blockOwnerDeletion, if the admission plugin OwnerReferencesPermissionEnforcement is
# enabled.
- apiGroups: [fleetwright.dev]
  resources: [agents/finalizers, skills/finalizers, mcpservers/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [serviceaccounts, configmaps, secrets, services]
  verbs: [get, list, watch, create, patch, delete]
# No permission to delete volumes, because they hold the agents' memory.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
# The operator annotates pods so that the kubelet re-reads mounted credentials at once. It also creates, reads and
# deletes probe pods.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
# Read so that the resources of helper pods meet the rules of their namespace.
- apiGroups: [""]
  resources: [limitranges, resourcequotas]
  verbs: [list, watch]
# Events for kubectl describe. The count of an equal Event is increased.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
# To verify the owners of a pod before the operator sends it a token.
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list, watch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
{{- with .Values.network.cilium }}
- apiGroups: [cilium.io]
  resources: [ciliumnetworkpolicies]
  verbs: [{{ if ne (toString .) "remove" }}get, create, patch, {{ end }}list, watch, delete]
{{- end }}
{{- end }}

{{/* Seconds of a duration such as 90s, 5m or 2h. */}}
{{- define "fleetwright.seconds" -}}
{{- $unit := regexFind "[smh]$" . -}}
{{- mul (trimSuffix $unit . | int) (get (dict "s" 1 "m" 60 "h" 3600) $unit) -}}
{{- end }}

{{/* Fails if the operator would reject two durations. `of` contains them; `life` and `overlap` are their names. */}}
{{- define "fleetwright.checkRotation" -}}
{{- $life := get .of .life -}}
{{- $overlap := get .of .overlap -}}
{{- range $name, $least := dict .life 60 .overlap 30 -}}
{{- if lt (include "fleetwright.seconds" (get $.of $name) | int) $least -}}
{{- fail (printf "%s.%s is %s and must be at least %ds" $.in $name (get $.of $name) $least) -}}
{{- end -}}
{{- end -}}
{{- if gt (include "fleetwright.seconds" $overlap | int) (include "fleetwright.seconds" $life | int) -}}
{{- fail (printf "%s.%s is %s and must not be longer than %s.%s, which is %s; shorten the former or lengthen the latter" .in .overlap $overlap .in .life $life) -}}
{{- end -}}
{{- end }}

{{- define "fleetwright.pods" -}}
{{ dict "namespace" .namespace "labels" (.podLabels | default dict) | toJson }}
{{- end }}

{{/* A NetworkPolicy peer for pods in a namespace. */}}
{{- define "fleetwright.peer" -}}
namespaceSelector:
  matchLabels: {kubernetes.io/metadata.name: {{ .namespace | quote }}}
{{- with .podLabels }}
podSelector:
  matchLabels: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{/* The labels of all agents' pods. */}}
{{- define "fleetwright.agents" -}}
app.kubernetes.io/managed-by: fleetwright
app.kubernetes.io/component: agent
{{- end }}
