{{/* A Deployment of the controllers: the root, with the names of the Deployment and of its component. */}}
{{- define "espalier.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .deployment }}
  namespace: {{ .Release.Namespace | quote }}
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
            - --leader-election-namespace={{ .Release.Namespace }}
            - --leader-elect-lease-duration={{ .Values.controllers.leaseDuration }}
            {{- with .Values.controllers.watchNamespaces }}
            - {{ join "," . | printf "--watch-namespaces=%s" | quote }}
            {{- end }}
            {{- with .Values.controllers.watchLabelSelector }}
            - {{ printf "--watch-label-selector=%s" . | quote }}
            {{- end }}
            - --health-probe-bind-address=:8081
            {{- include "espalier.metricsArgs" . | nindent 12 }}
            - --workers={{ .Values.controllers.workers }}
            - --requests-in-flight={{ .Values.controllers.requestsInFlight }}
            - --poll={{ .Values.controllers.poll }}
            {{- with .Values.controllers.dialects }}
            - --dialects={{ join "," . }}
            {{- end }}
            - --require-service-account={{ .Values.controllers.requireServiceAccount }}
            - {{ printf "--resource-group-api-groups=%s" (prepend .Values.controllers.resourceGroups.apiGroups "kro.run" | join ",") | quote }}
            - --max-kinds-per-namespace={{ .Values.controllers.resourceGroups.maxKinds }}
            - --allow-crd-deletion={{ .Values.controllers.allowCRDDeletion }}
            # The chart has them.
            - --admission-policies=false
            - --usages={{ .Values.controllers.usages }}
            - --more-columns={{ .Values.controllers.moreColumns }}
            - --log-format={{ .Values.controllers.logFormat }}
            - --verbosity={{ .Values.controllers.verbosity }}
            {{- with .Values.tracing }}
            {{- if .endpoint }}
            - {{ printf "--tracing-endpoint=%s" .endpoint | quote }}
            - --tracing-protocol={{ .protocol }}
            - --tracing-sampling-ratio={{ .samplingRatio }}
            {{- end }}
            {{- end }}
            {{- with .Values.controllers.functions.certificatesSecret }}
            {{- if .name }}
            - --function-certificates-secret={{ required "controllers.functions.certificatesSecret.namespace is required" .namespace }}/{{ .name }}
            {{- end }}
            {{- end }}
            {{- if .Values.webhook.replaceCrossplane }}
            - --replace-crossplane-webhook
            {{- end }}
            {{- if .Values.webhook.enabled }}
            - --webhook-bind-address=:{{ .Values.webhook.port }}
            - --webhook-service={{ .Release.Namespace }}/espalier-webhook
            - --webhook-secret-namespace={{ .Release.Namespace }}
            {{- if .Values.webhook.certManager.enabled }}
            - --webhook-certificates=/certificates/webhook
            {{- end }}
            {{- if .Values.webhook.clientCA.configMap }}
            - {{ .Values.webhook.clientCA.key | printf "--webhook-client-ca=/certificates/clients/%s" | quote }}
            {{- with .Values.webhook.clientCA.allowedNames }}
            - {{ join "," . | printf "--webhook-client-allowed-names=%s" | quote }}
            {{- end }}
            {{- end }}
            {{- end }}
            {{- if .Values.ui.enabled }}
            - --ui-bind-address=:{{ .Values.ui.port }}
            {{- if .Values.ui.certificateSecret }}
            - --ui-cert-path=/certificates/ui
            {{- end }}
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
            {{- include "espalier.containerSecurity" . | nindent 12 }}
          resources:
            {{- toYaml .Values.resources | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
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
      volumes:
        # The socket of 'espalier watches'.
        - name: tmp
          emptyDir: {medium: Memory, sizeLimit: 16Mi}
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
{{- end -}}
