{{/* The flags that both programs have, as a list in YAML. */}}
{{- define "weir.args" -}}
{{- $v := .root.Values -}}
{{- $secret := index $v.consul.secrets .program -}}
{{- $args := list -}}
{{- if eq $v.rules.source "consul" -}}
  {{- $args = list "--rules=consul:" "--rules-copy=/var/lib/weir/rules" -}}
{{- else if eq $v.rules.source "configMap" -}}
  {{- $args = list "--rules=/etc/weir/rules" -}}
{{- else -}}
  {{- $args = list "--rules=/etc/weir/rules/rules.yaml" -}}
{{- end -}}
{{- $args = concat $args (list "--listen=0.0.0.0:8080" "--admin-listen=0.0.0.0:8090") -}}
{{- if $v.admin.local }}{{ $args = append $args "--admin-local" }}{{ end -}}
{{- if $v.admin.tokensSecret }}{{ $args = append $args "--admin-tokens=/etc/weir/admin/tokens" }}{{ end -}}
{{- $args = concat $args (list "--tls-cert=/etc/weir/tls/tls.crt" "--tls-key=/etc/weir/tls/tls.key" "--tls-client-ca=/etc/weir/tls/ca.crt" "--log-format=json") -}}
{{- if $v.keySecrets.secret }}{{ $args = append $args "--key-secrets=/etc/weir/keys/key-secrets" }}{{ end -}}
{{- with $v.consul }}{{ if .enabled -}}
  {{- $args = concat $args (list (printf "--consul=%s" .address) "--advertise=$(POD_IP):8080") -}}
  {{- if .primary }}{{ $args = append $args (printf "--consul-primary=%s" .primary) }}{{ end -}}
  {{- if $secret }}{{ $args = append $args "--consul-token-file=/etc/weir/consul/token" }}{{ end -}}
  {{- if .tls.enabled }}{{ $args = concat $args (list "--consul-tls" "--consul-tls-ca=/etc/weir/consul/ca.crt") }}{{ end -}}
  {{- if .tls.name }}{{ $args = append $args (printf "--consul-tls-name=%s" .tls.name) }}{{ end -}}
  {{- if .tls.clientCertificate }}{{ $args = concat $args (list "--consul-tls-cert=/etc/weir/consul/tls.crt" "--consul-tls-key=/etc/weir/consul/tls.key") }}{{ end -}}
{{- end }}{{ end -}}
{{- toYaml $args -}}
{{- end }}

{{/* Those of a Redis: the values of redis. */}}
{{- define "weir.redisArgs" -}}
{{- $args := list (printf "--redis=%s" (join "," .addresses)) -}}
{{- if ne .mode "auto" }}{{ $args = append $args (printf "--redis-mode=%s" .mode) }}{{ end -}}
{{- if .sentinelMaster }}{{ $args = append $args (printf "--redis-sentinel-master=%s" .sentinelMaster) }}{{ end -}}
{{- if and .secret .username }}{{ $args = append $args (printf "--redis-username=%s" .username) }}{{ end -}}
{{- if .secret }}{{ $args = append $args "--redis-password-file=/etc/weir/redis/password" }}{{ end -}}
{{- with .tls }}{{ if .enabled -}}
  {{- $args = append $args "--redis-tls" -}}
  {{- if .ca }}{{ $args = append $args "--redis-tls-ca=/etc/weir/redis/ca.crt" }}{{ end -}}
  {{- if .name }}{{ $args = append $args (printf "--redis-tls-name=%s" .name) }}{{ end -}}
  {{- if .clientCertificate }}{{ $args = concat $args (list "--redis-tls-cert=/etc/weir/redis/tls.crt" "--redis-tls-key=/etc/weir/redis/tls.key") }}{{ end -}}
{{- end }}{{ end -}}
{{- toYaml $args -}}
{{- end }}

{{/* All flags of the region. */}}
{{- define "weir.regionArgs" -}}
{{- $v := .root.Values -}}
{{- $redis := $v.redis -}}
{{- if eq $v.store "valkey" -}}
  {{- $redis = dict "addresses" (list (printf "weir-valkey.%s.svc:6379" .root.Release.Namespace)) "mode" "cluster" "sentinelMaster" "" "username" "weir" "secret" $v.redis.secret "tls" (dict "enabled" false) -}}
{{- end -}}
{{- $args := concat (fromYamlArray (include "weir.args" (merge (dict "program" "region") .))) (list (printf "--region=%s" $v.region.name)) (fromYamlArray (include "weir.redisArgs" $redis)) -}}
{{- $aggregators := $v.region.aggregator.addresses -}}
{{- if and $v.aggregator.enabled (not $aggregators) }}{{ $aggregators = list (printf "weir-global.%s.svc:8080" .root.Release.Namespace) }}{{ end -}}
{{- if $aggregators }}{{ $args = append $args (printf "--aggregator=%s" (join "," $aggregators)) }}{{ end -}}
{{- if or $aggregators $v.consul.enabled -}}
  {{- $args = concat $args (list "--aggregator-tls" "--aggregator-tls-ca=/etc/weir/tls/ca.crt" (printf "--aggregator-tls-name=%s" $v.region.aggregator.tlsName) "--aggregator-tls-cert=/etc/weir/tls/tls.crt" "--aggregator-tls-key=/etc/weir/tls/tls.key") -}}
{{- end -}}
{{- toYaml $args -}}
{{- end }}

{{/* All flags of the aggregator. */}}
{{- define "weir.aggregatorArgs" -}}
{{- $a := .root.Values.aggregator -}}
{{- $args := fromYamlArray (include "weir.args" (merge (dict "program" "aggregator") .)) -}}
{{- if $a.redis.addresses -}}
  {{- $args = concat $args (fromYamlArray (include "weir.redisArgs" $a.redis)) (list (printf "--replicas=%d" (int $a.replicas))) -}}
{{- else -}}
  {{- /* Nobody else can answer meanwhile, so waiting would only make the pause longer. */ -}}
  {{- $args = concat $args (list "--state=/var/lib/weir/state" "--drain-wait=0s") -}}
{{- end -}}
{{- toYaml $args -}}
{{- end }}
