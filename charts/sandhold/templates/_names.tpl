{{- define "sandhold.labels" -}}
app.kubernetes.io/name: sandhold
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: sandhold
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sandhold.selector" -}}
app.kubernetes.io/name: sandhold
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "sandhold.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* What holds for both programs alike: not root, nothing to gain, nothing to write to. */ -}}
{{- define "sandhold.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sandhold.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "sandhold.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "sandhold.placement" -}}
{{- with .imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .program.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .program.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .program.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .program.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "sandhold.metricsRule" -}}
- ports:
    - {port: 8080, protocol: TCP}
  {{- with .Values.networkPolicy.metricsFrom }}
  from: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "sandhold.backends" -}}
{{ .Values.backends | mustToPrettyJson }}
{{- end }}
