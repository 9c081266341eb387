{{/* The image of all containers. */}}
{{- define "espalier.image" -}}
{{- if not .Values.image.repository }}
{{- fail "image.repository is required, because no image of Espalier is published: push one to your registry (docs/releases.md), and name it, for espalier install with --image REGISTRY/espalier:TAG" }}
{{- end }}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* A version as the value of a label. */}}
{{- define "espalier.labelValue" -}}
{{ . | replace "+" "_" | trunc 63 | trimAll "-_." }}
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "espalier.labels" -}}
app.kubernetes.io/name: espalier
app.kubernetes.io/instance: espalier
app.kubernetes.io/version: {{ include "espalier.labelValue" (.Values.image.tag | default .Chart.AppVersion) | quote }}
app.kubernetes.io/part-of: espalier
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ include "espalier.labelValue" (printf "%s-%s" .Chart.Name .Chart.Version) | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The annotations of an object: commonAnnotations, and those of its own, which precede them: (list . .Values.serviceAccount.annotations). */}}
{{- define "espalier.annotations" -}}
{{- $annotations := deepCopy (index . 0).Values.commonAnnotations -}}
{{- range rest . -}}{{- $annotations = mergeOverwrite $annotations . -}}{{- end -}}
{{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end -}}
{{- end -}}

{{/* The labels by which the pods of a component are selected: (list . "controllers"). They are immutable, and so independent of the
     name of the release: an installation may move between Helm and 'espalier install'. */}}
{{- define "espalier.selector" -}}
app.kubernetes.io/name: espalier
app.kubernetes.io/instance: espalier
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* The permissions of the parts of the program: (list . "cluster" (list "controllers" "graph")). */}}
{{- define "espalier.rules" -}}
{{- $all := (index . 0).Files.Get "files/permissions.yaml" | fromYaml -}}
{{- $scope := index . 1 -}}
{{- $rules := list -}}
{{- range index . 2 -}}
{{- $rules = concat $rules (dig . $scope list $all) -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* The parts of the controllers that run, as JSON. */}}
{{- define "espalier.parts" -}}
{{- $parts := list "controllers" -}}
{{- $dialects := .Values.controllers.dialects | default (list "graph" "composition") -}}
{{- $parts = concat $parts $dialects -}}
{{- if and .Values.controllers.graphs (has "graph" $dialects) -}}{{- $parts = append $parts "graphs" -}}{{- end -}}
{{- if .Values.webhook.enabled -}}
{{- if not .Values.webhook.certManager.enabled -}}{{- $parts = append $parts "webhookSecret" -}}{{- end -}}
{{- $parts = append $parts "webhook" -}}
{{- end -}}
{{- if and .Values.metrics.enabled .Values.metrics.secure -}}{{- $parts = append $parts "metricsSecure" -}}{{- end -}}
{{- if or .Values.controllers.shards .Values.controllers.watchNamespaces .Values.controllers.watchLabelSelector -}}{{- $parts = append $parts "sharded" -}}{{- end -}}
{{- if .Values.webhook.replaceCrossplane -}}{{- $parts = append $parts "replaceCrossplane" -}}{{- end -}}
{{- if .Values.controllers.packages.enabled -}}
{{- $parts = append $parts "packages" -}}
{{- if .Values.controllers.packages.providers.permissions -}}{{- $parts = append $parts "packageProviders" -}}{{- end -}}
{{- end -}}
{{- if .Values.controllers.operations.enabled -}}{{- $parts = append $parts "operations" -}}{{- end -}}
{{- toJson $parts -}}
{{- end -}}

{{/* Fails if two servers of the controllers' pod would listen on the same port. */}}
{{- define "espalier.checkPorts" -}}
{{- $ports := dict "8081" "that of the probes" -}}
{{- range $name := list "metrics" "ui" "webhook" -}}
{{- $server := index $.Values $name -}}
{{- if $server.enabled -}}
{{- $port := $server.port | int | toString -}}
{{- with get $ports $port -}}{{- fail (printf "%s.port cannot be %s, which is %s" $name $port .) -}}{{- end -}}
{{- $_ := set $ports $port (printf "%s.port" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the pods of all components have in common: (list . "controllers"). */}}
{{- define "espalier.pod" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- if $root.Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with $root.Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
enableServiceLinks: false
terminationGracePeriodSeconds: 30
topologySpreadConstraints:
  {{- if $root.Values.topologySpreadConstraints }}
  {{- toYaml $root.Values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "espalier.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
  {{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The arguments for metrics. */}}
{{- define "espalier.metricsArgs" -}}
{{- with .Values.metrics -}}
{{- if .enabled -}}
- --metrics-bind-address=:{{ .port }}
{{- if .secure }}
- --metrics-secure
{{- if .certificateSecret }}
- --metrics-cert-path=/certificates/metrics
{{- end }}
{{- end }}
{{- else -}}
- --metrics-bind-address=0
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The probes of all containers. */}}
{{- define "espalier.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: probes}
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /healthz, port: probes}
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* The groups of services of AWS, as JSON: (list "ec2" "eks"). */}}
{{- define "espalier.awsGroups" -}}
{{- $groups := list -}}
{{- range . -}}{{- $groups = append $groups (printf "%s.aws.espalier.dev" .) -}}{{- end -}}
{{- toJson $groups -}}
{{- end -}}
