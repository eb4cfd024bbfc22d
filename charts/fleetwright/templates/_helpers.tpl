{{- define "fleetwright.name" -}}
{{ .Release.Name }}-operator
{{- end }}

{{/* What cluster-scoped objects are called: two releases of one name may live in two namespaces. */}}
{{- define "fleetwright.clusterName" -}}
{{ .Release.Namespace }}-{{ include "fleetwright.name" . }}
{{- end }}

{{- define "fleetwright.cardKeys" -}}
{{ include "fleetwright.name" . }}-card-keys
{{- end }}

{{- define "fleetwright.selector" -}}
app.kubernetes.io/name: fleetwright-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fleetwright.labels" -}}
{{ include "fleetwright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Exactly the verbs the operator uses: server-side apply is patch, and create where nothing is yet. */}}
{{- define "fleetwright.rules" -}}
- apiGroups: [fleetwright.dev]
  resources: [agents, skills, mcpservers]
  verbs: [get, list, watch]
- apiGroups: [fleetwright.dev]
  resources: [agents/status, skills/status, mcpservers/status]
  verbs: [patch]
# Owner references that block deletion ask for this where that admission plugin is on.
- apiGroups: [fleetwright.dev]
  resources: [agents/finalizers, skills/finalizers, mcpservers/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [serviceaccounts, configmaps, secrets, services]
  verbs: [get, list, watch, create, patch, delete]
# Volumes hold memory: nothing of ours deletes one.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
# An annotation makes the kubelet re-read mounted credentials at once; probes are pods that we start, hear and end.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
# What happened to an object, for kubectl describe; an equal one is counted.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
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

{{/* Writes nothing. `of` has two durations, by their names `life` and `overlap`: the operator would refuse to start with these. */}}
{{- define "fleetwright.checkRotation" -}}
{{- $life := get .of .life -}}
{{- $overlap := get .of .overlap -}}
{{- range $name, $least := dict .life 60 .overlap 30 -}}
{{- if lt (include "fleetwright.seconds" (get $.of $name) | int) $least -}}
{{- fail (printf "%s.%s is %s and must be at least %ds" $.in $name (get $.of $name) $least) -}}
{{- end -}}
{{- end -}}
{{- if gt (include "fleetwright.seconds" $overlap | int) (include "fleetwright.seconds" $life | int) -}}
{{- fail (printf "%s.%s is %s and must not be longer than %s.%s, which is %s: shorten the one or lengthen the other" .in .overlap $overlap .in .life $life) -}}
{{- end -}}
{{- end }}

{{- define "fleetwright.pods" -}}
{{ dict "namespace" .namespace "labels" (.podLabels | default dict) | toJson }}
{{- end }}

{{/* Those pods, as a NetworkPolicy names them. */}}
{{- define "fleetwright.peer" -}}
namespaceSelector:
  matchLabels: {kubernetes.io/metadata.name: {{ .namespace }}}
{{- with .podLabels }}
podSelector:
  matchLabels: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{/* The pods of every agent. */}}
{{- define "fleetwright.agents" -}}
app.kubernetes.io/managed-by: fleetwright
app.kubernetes.io/component: agent
{{- end }}
