{{/* The pod of a program: its name, program (region or aggregator), args (YAML), more (those of the user), resources,
     secret (of Redis, or empty), and whether it has a claim to a volume for its state. */}}
{{- define "weir.pod" -}}
{{- $v := .root.Values -}}
{{- $consul := eq $v.rules.source "consul" -}}
{{- $consulSecret := and $v.consul.enabled (index $v.consul.secrets .program) -}}
{{ include "weir.podSettings" . }}
# --drain-wait (6 s) and --drain-timeout (10 s) fit in.
terminationGracePeriodSeconds: 30
containers:
  - name: {{ .name }}
    image: {{ $v.image.prefix }}{{ trimPrefix "weir" .name }}{{ with index $v.image.digests .name }}@{{ . }}{{ else }}:{{ $v.image.tag | default .root.Chart.Version }}{{ end }}
    imagePullPolicy: {{ $v.image.pullPolicy }}
    args:
      {{- .args | nindent 6 }}
      {{- with .more }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- if $v.consul.enabled }}
    env:
      - { name: POD_IP, valueFrom: { fieldRef: { fieldPath: status.podIP } } }
      - { name: HOST_IP, valueFrom: { fieldRef: { fieldPath: status.hostIP } } }
    {{- end }}
    ports:
      - { name: quota, containerPort: 8080 }
      - { name: admin, containerPort: 8090 }
    # 60 s to load rules and state. Not /readyz: a pod waits for Redis, alive.
    startupProbe:
      httpGet: { path: /healthz, port: admin }
      periodSeconds: 1
      timeoutSeconds: 5
      failureThreshold: 60
    # One slow answer takes no pod out.
    readinessProbe:
      httpGet: { path: /readyz, port: admin }
      periodSeconds: 2
      timeoutSeconds: 2
      failureThreshold: 3
    # A minute without an answer.
    livenessProbe:
      httpGet: { path: /healthz, port: admin }
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    resources:
      {{- toYaml .resources | nindent 6 }}
    {{- include "weir.containerSecurity" . | nindent 4 }}
    volumeMounts:
      {{- if not $consul }}
      - { name: rules, mountPath: /etc/weir/rules, readOnly: true }
      {{- end }}
      - { name: tls, mountPath: /etc/weir/tls, readOnly: true }
      {{- if .secret }}
      - { name: redis, mountPath: /etc/weir/redis, readOnly: true }
      {{- end }}
      {{- if $v.keySecrets.secret }}
      - { name: keys, mountPath: /etc/weir/keys, readOnly: true }
      {{- end }}
      {{- if $consulSecret }}
      - { name: consul, mountPath: /etc/weir/consul, readOnly: true }
      {{- end }}
      {{- if $v.admin.tokensSecret }}
      - { name: admin, mountPath: /etc/weir/admin, readOnly: true }
      {{- end }}
      {{- if or .claim $consul }}
      - { name: state, mountPath: /var/lib/weir }
      {{- end }}
volumes:
  {{- if not $consul }}
  - { name: rules, configMap: { name: {{ $v.rules.configMap | default "weir-rules" | quote }} } }
  {{- end }}
  - { name: tls, secret: { secretName: {{ .name }}-tls } }
  {{- if .secret }}
  - { name: redis, secret: { secretName: {{ .secret | quote }} } }
  {{- end }}
  {{- if $v.keySecrets.secret }}
  # Weir rejects a file of secrets that everybody may read.
  - { name: keys, secret: { secretName: {{ $v.keySecrets.secret | quote }}, defaultMode: 0440 } }
  {{- end }}
  {{- if $consulSecret }}
  - { name: consul, secret: { secretName: {{ $consulSecret | quote }}, defaultMode: 0440 } }
  {{- end }}
  {{- if $v.admin.tokensSecret }}
  - { name: admin, secret: { secretName: {{ $v.admin.tokensSecret | quote }}, defaultMode: 0440 } }
  {{- end }}
  {{- if and $consul (not .claim) }}
  # The copy of Consul's rules, for a start without it.
  - { name: state, emptyDir: {} }
  {{- end }}
{{- end }}
