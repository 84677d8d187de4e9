{{/* The labels of what belongs to a program. The first one alone selects its pods. */}}
{{- define "weir.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/part-of: weir
app.kubernetes.io/version: {{ .root.Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "weir.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "weir.labels" . | nindent 2 }}
{{- end }}

{{- define "weir.selector" -}}
matchLabels: { app.kubernetes.io/name: {{ .name }} }
{{- end }}

{{/* The ServiceAccount, the headless Service and the PodDisruptionBudget of a program. */}}
{{- define "weir.around" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "weir.metadata" . | nindent 2 }}
automountServiceAccountToken: false       # it calls no API of Kubernetes
---
# Without a cluster address: callers check each pod themselves and balance calls over them.
apiVersion: v1
kind: Service
metadata:
  {{- include "weir.metadata" . | nindent 2 }}
spec:
  clusterIP: None
  {{- if .unready }}
  publishNotReadyAddresses: true          # nodes meet before the cluster exists
  {{- end }}
  selector: { app.kubernetes.io/name: {{ .name }} }
  ports:
    {{- range $port, $number := .ports }}
    - { name: {{ $port }}, port: {{ $number }}, targetPort: {{ $port }} }
    {{- end }}
---
# minAvailable: 1 would let no node with the only pod be drained.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "weir.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  {{- if not .unready }}{{/* One of Valkey may be copying its master. */}}
  unhealthyPodEvictionPolicy: AlwaysAllow # a pod that is broken keeps no node from being drained
  {{- end }}
  selector:
    {{- include "weir.selector" . | nindent 4 }}
{{- end }}

{{/* What all pods have: the user, where they run, and no more rights than they need. */}}
{{- define "weir.podSettings" -}}
{{- $v := .root.Values -}}
serviceAccountName: {{ .name }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
topologySpreadConstraints:
  {{- range $key, $when := dict "topology.kubernetes.io/zone" $v.spread.zones "kubernetes.io/hostname" $v.spread.hosts }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: {{ $when }}
    labelSelector:
      {{- include "weir.selector" $ | nindent 6 }}
  {{- end }}
{{- with $v.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- with $v.pods.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.pods.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.pods.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "weir.podMetadata" -}}
labels: { app.kubernetes.io/name: {{ .name }} }
{{- with merge (dict) .root.Values.pods.annotations (default dict .annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "weir.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}
