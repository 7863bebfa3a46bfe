{{/* Prefix of every name. */}}
{{- define "newsproof.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{/* Labels that select the pods of a component: (dict "root" $ "name" "worker"). */}}
{{- define "newsproof.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "newsproof.labels" -}}
{{ include "newsproof.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* Partitions, as a number. */}}
{{- define "newsproof.partitions" -}}
{{- .Values.settings.TOPIC_PARTITIONS | default 4 | int }}
{{- end }}

{{/* The template of a pod: (dict "root" $ "name" "worker" "command" "worker" "values" .Values.worker "env" (list …) "volumes" (list …) "mounts" (list …)). */}}
{{- define "newsproof.pod" -}}
{{- $port := ternary "page" "metrics" (eq .name "web") }}
metadata:
  labels: {{- include "newsproof.labels" . | nindent 4 }}
  annotations:
    # A changed setting restarts the pod.
    checksum/settings: {{ toJson .root.Values.settings | sha256sum }}
    checksum/sources: {{ .root.Values.sources | sha256sum }}
spec:
  automountServiceAccountToken: false
  # The variables of a Service called `web` would read as settings (WEB_PORT).
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.pod }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  containers:
    - name: newsproof
      {{- with .root.Values.image }}
      image: {{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.root.Chart.AppVersion }}{{ end }}
      imagePullPolicy: {{ .pullPolicy }}
      {{- end }}
      args: [{{ .command }}]
      envFrom:
        - configMapRef: {name: {{ include "newsproof.name" .root }}-settings}
        - secretRef: {name: {{ .root.Values.secret }}}
      env:
        - {name: NEWSPROOF_DATA_DIR, value: /data}
        {{- if ne .name "web" }}
        - {name: METRICS_HOST, value: 0.0.0.0}
        - {name: METRICS_PORT, value: "9100"}
        {{- end }}
        {{- if .root.Values.sources }}
        - {name: LISTENER_SOURCES, value: /etc/newsproof/sources/sources.toml}
        {{- end }}
        {{- with .env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: {{ $port }}, containerPort: {{ ternary .root.Values.web.port 9100 (eq .name "web") }}}
      # The port opens once Kafka answers and the topics are there.
      startupProbe:
        httpGet: {path: /healthz, port: {{ $port }}}
        periodSeconds: 5
        failureThreshold: 60
        timeoutSeconds: 5
      livenessProbe:
        httpGet: {path: /healthz, port: {{ $port }}}
        periodSeconds: 10
        failureThreshold: 3
        timeoutSeconds: 5
      readinessProbe:
        httpGet: {path: /readyz, port: {{ $port }}}
        periodSeconds: 5
        timeoutSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      {{- with .values.resources }}
      resources: {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
        {{- if .root.Values.sources }}
        - {name: sources, mountPath: /etc/newsproof/sources, readOnly: true}
        {{- end }}
        {{- if .root.Values.certificates }}
        - {name: certificates, mountPath: /etc/newsproof/certificates, readOnly: true}
        {{- end }}
        {{- with .mounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {}}
    {{- if not .values.storage }}
    - {name: data, emptyDir: {}}
    {{- end }}
    {{- if .root.Values.sources }}
    - {name: sources, configMap: {name: {{ include "newsproof.name" .root }}-sources}}
    {{- end }}
    {{- if .root.Values.certificates }}
    - {name: certificates, secret: {secretName: {{ .root.Values.certificates }}}}
    {{- end }}
    {{- with .volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
