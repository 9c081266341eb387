{{/* The configuration file of the controllers: what the values have beyond the arguments, and controllers.configuration. */}}
{{- define "espalier.configuration" -}}
{{- $controllers := .Values.controllers -}}
{{- $groups := dict "apiGroups" (prepend $controllers.resourceGroups.apiGroups "kro.run") "maxKinds" $controllers.resourceGroups.maxKinds -}}
{{- $webhook := dict "replaceCrossplane" .Values.webhook.replaceCrossplane -}}
{{- if and .Values.webhook.enabled .Values.webhook.certManager.enabled -}}{{- $_ := set $webhook "certPath" "/certificates/webhook" -}}{{- end -}}
{{- if and .Values.webhook.enabled .Values.webhook.clientCA.configMap -}}
{{- $_ := set $webhook "clientCA" (printf "/certificates/clients/%s" .Values.webhook.clientCA.key) -}}
{{- $_ := set $webhook "clientNames" .Values.webhook.clientCA.allowedNames -}}
{{- end -}}
{{- $functions := dict -}}
{{- with $controllers.functions.certificatesSecret -}}
{{- if .name -}}
{{- $namespace := required "controllers.functions.certificatesSecret.namespace is required" .namespace -}}
{{- $_ := set $functions "certificatesSecret" (printf "%s/%s" $namespace .name) -}}
{{- end -}}
{{- end -}}
{{- $packages := dict "enabled" $controllers.packages.enabled -}}
{{- if $controllers.packages.enabled -}}
{{- $_ := set $packages "cacheDir" "/cache/packages" -}}
{{- with $controllers.packages.providers.permissions -}}{{- $_ := set $packages "providerPermissions" . -}}{{- end -}}
{{- end -}}
{{- $operations := dict "enabled" $controllers.operations.enabled -}}
{{- with $controllers.operations.serviceAccount -}}
{{- if .name -}}
{{- $namespace := required "controllers.operations.serviceAccount.namespace is required" .namespace -}}
{{- $_ := set $operations "serviceAccount" (printf "%s/%s" $namespace .name) -}}
{{- end -}}
{{- end -}}
{{- $ui := dict -}}
{{- if and .Values.ui.enabled .Values.ui.certificateSecret -}}{{- $_ := set $ui "certPath" "/certificates/ui" -}}{{- end -}}
{{- $metrics := dict -}}
{{- if and .Values.metrics.enabled .Values.metrics.secure .Values.metrics.certificateSecret -}}{{- $_ := set $metrics "certPath" "/certificates/metrics" -}}{{- end -}}
{{- $tracing := dict -}}
{{- if .Values.tracing.endpoint -}}{{- $tracing = dict "protocol" .Values.tracing.protocol "samplingRatio" .Values.tracing.samplingRatio -}}{{- end -}}
{{- /* The chart has the admission policies. */ -}}
{{- $file := dict "apiVersion" "config.espalier.dev/v1alpha1" "kind" "ControllerConfiguration"
      "requestsInFlight" $controllers.requestsInFlight "poll" $controllers.poll "resourceGroups" $groups "admissionPolicies" false
      "usages" $controllers.usages "moreColumns" $controllers.moreColumns "leaderElection" (dict "leaseDuration" $controllers.leaseDuration)
      "webhook" $webhook "functions" $functions "packages" $packages "operations" $operations "ui" $ui "metrics" $metrics "tracing" $tracing -}}
{{- mergeOverwrite $file (deepCopy $controllers.configuration) | toYaml -}}
{{- end -}}

{{/* A Deployment of the controllers: the root, with the names of the Deployment and of its component. */}}
{{- define "espalier.deployment" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .deployment }}
  namespace: {{ .Release.Namespace | quote }}
  {{- include "espalier.annotations" (list .) }}
  labels:
    {{- include "espalier.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
data:
  config.yaml: |
    {{- include "espalier.configuration" . | nindent 4 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .deployment }}
  namespace: {{ .Release.Namespace | quote }}
  {{- include "espalier.annotations" (list .) }}
  labels:
    {{- include "espalier.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ .Values.replicas }}
  revisionHistoryLimit: 3
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels:
      {{- include "espalier.selector" (list . .component) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "espalier.labels" . | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        {{- with .Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: espalier
        # The controllers read their configuration when they start.
        checksum/config: {{ include "espalier.configuration" . | sha256sum }}
        {{- with .Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ .Values.serviceAccount.name | quote }}
      automountServiceAccountToken: true
      {{- include "espalier.pod" (list . .component) | trim | nindent 6 }}
      containers:
        - name: espalier
          image: {{ include "espalier.image" . | quote }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args:
            - run
            - --config=/etc/espalier/config.yaml
            - --leader-election-namespace={{ .Release.Namespace }}
            {{- with .Values.controllers.watchNamespaces }}
            - {{ join "," . | printf "--watch-namespaces=%s" | quote }}
            {{- end }}
            {{- with .Values.controllers.watchLabelSelector }}
            - {{ printf "--watch-label-selector=%s" . | quote }}
            {{- end }}
            - --health-probe-bind-address=:8081
            - --metrics-bind-address={{ if .Values.metrics.enabled }}:{{ .Values.metrics.port }}{{ else }}0{{ end }}
            {{- if and .Values.metrics.enabled .Values.metrics.secure }}
            - --metrics-secure
            {{- end }}
            - --workers={{ .Values.controllers.workers }}
            {{- with .Values.controllers.dialects }}
            - --dialects={{ join "," . }}
            {{- end }}
            - --require-service-account={{ .Values.controllers.requireServiceAccount }}
            - --allow-crd-deletion={{ .Values.controllers.allowCRDDeletion }}
            - --log-format={{ .Values.controllers.logFormat }}
            - --verbosity={{ .Values.controllers.verbosity }}
            {{- with .Values.tracing }}
            {{- if .endpoint }}
            - {{ printf "--tracing-endpoint=%s" .endpoint | quote }}
            {{- end }}
            {{- end }}
            {{- if .Values.webhook.enabled }}
            - --webhook-bind-address=:{{ .Values.webhook.port }}
            - --webhook-service={{ .Release.Namespace }}/espalier-webhook
            {{- end }}
            {{- if .Values.ui.enabled }}
            - --ui-bind-address=:{{ .Values.ui.port }}
            {{- end }}
            {{- with .Values.controllers.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          env:
            # Garbage collection is more frequent near the limit, instead of the container exceeding it.
            - name: GOMEMLIMIT
              valueFrom:
                resourceFieldRef: {containerName: espalier, resource: limits.memory}
            {{- with .Values.tracing }}
            {{- if and .endpoint .headersSecret.name }}
            - name: OTEL_EXPORTER_OTLP_TRACES_HEADERS
              valueFrom:
                secretKeyRef: {name: {{ .headersSecret.name | quote }}, key: {{ .headersSecret.key | quote }}}
            {{- end }}
            {{- if and .endpoint .ca.configMap }}
            - name: OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE
              value: {{ printf "/certificates/tracing/%s" .ca.key | quote }}
            {{- end }}
            {{- end }}
            {{- with .Values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: probes, containerPort: 8081}
            {{- if .Values.metrics.enabled }}
            - {name: metrics, containerPort: {{ .Values.metrics.port }}}
            {{- end }}
            {{- if .Values.ui.enabled }}
            - {name: ui, containerPort: {{ .Values.ui.port }}}
            {{- end }}
            {{- if .Values.webhook.enabled }}
            - {name: webhook, containerPort: {{ .Values.webhook.port }}}
            {{- end }}
          {{- include "espalier.probes" . | nindent 10 }}
          securityContext:
            {{- toYaml .Values.securityContext | nindent 12 }}
          resources:
            {{- toYaml .Values.resources | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            - {name: config, mountPath: /etc/espalier, readOnly: true}
            {{- if .Values.controllers.packages.enabled }}
            - {name: packages, mountPath: /cache/packages}
            {{- end }}
            {{- if and .Values.metrics.enabled .Values.metrics.secure .Values.metrics.certificateSecret }}
            - {name: metrics-certificates, mountPath: /certificates/metrics, readOnly: true}
            {{- end }}
            {{- if and .Values.ui.enabled .Values.ui.certificateSecret }}
            - {name: ui-certificates, mountPath: /certificates/ui, readOnly: true}
            {{- end }}
            {{- if and .Values.webhook.enabled .Values.webhook.certManager.enabled }}
            - {name: webhook-certificates, mountPath: /certificates/webhook, readOnly: true}
            {{- end }}
            {{- if and .Values.webhook.enabled .Values.webhook.clientCA.configMap }}
            - {name: webhook-clients, mountPath: /certificates/clients, readOnly: true}
            {{- end }}
            {{- if and .Values.tracing.endpoint .Values.tracing.ca.configMap }}
            - {name: tracing-ca, mountPath: /certificates/tracing, readOnly: true}
            {{- end }}
            {{- with .Values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        # The socket of 'espalier watches'.
        - name: tmp
          emptyDir: {medium: Memory, sizeLimit: 16Mi}
        - name: config
          configMap: {name: {{ .deployment }}}
        {{- if .Values.controllers.packages.enabled }}
        - name: packages
          emptyDir: {sizeLimit: 2Gi} # the cache keeps to half of it
        {{- end }}
        {{- if and .Values.metrics.enabled .Values.metrics.secure .Values.metrics.certificateSecret }}
        - name: metrics-certificates
          secret: {secretName: {{ .Values.metrics.certificateSecret | quote }}}
        {{- end }}
        {{- if and .Values.ui.enabled .Values.ui.certificateSecret }}
        - name: ui-certificates
          secret: {secretName: {{ .Values.ui.certificateSecret | quote }}}
        {{- end }}
        {{- if and .Values.webhook.enabled .Values.webhook.certManager.enabled }}
        - name: webhook-certificates
          secret: {secretName: espalier-webhook-tls}
        {{- end }}
        {{- if and .Values.webhook.enabled .Values.webhook.clientCA.configMap }}
        - name: webhook-clients
          configMap: {name: {{ .Values.webhook.clientCA.configMap | quote }}}
        {{- end }}
        {{- if and .Values.tracing.endpoint .Values.tracing.ca.configMap }}
        - name: tracing-ca
          configMap: {name: {{ .Values.tracing.ca.configMap | quote }}}
        {{- end }}
        {{- with .Values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
