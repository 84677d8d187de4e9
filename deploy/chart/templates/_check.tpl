{{/* Rejects values that contradict each other, with what to change. */}}
{{- define "weir.check" -}}
{{- $v := .Values -}}
{{- $wrong := list -}}
{{- if not (or $v.region.enabled $v.aggregator.enabled) -}}
  {{- $wrong = append $wrong "there is nothing to install: set region.enabled or aggregator.enabled to true" -}}
{{- end -}}
{{- if and (eq $v.rules.source "consul") (not $v.consul.enabled) -}}
  {{- $wrong = append $wrong "rules.source is consul: set consul.enabled to true, and consul.address" -}}
{{- end -}}
{{- if ne (eq $v.rules.source "configMap") (ne $v.rules.configMap "") -}}
  {{- $wrong = append $wrong "rules.source: configMap and rules.configMap, the name of one, need each other: set both or neither" -}}
{{- end -}}
{{- if eq $v.rules.source "text" }}{{ with (fromYaml $v.rules.text).Error }}{{ $wrong = append $wrong (printf "rules.text is not YAML with rules: %s" .) }}{{ end }}{{ end -}}
{{- if and $v.region.enabled (eq $v.store "valkey") -}}
  {{- if $v.redis.tls.enabled }}{{ $wrong = append $wrong "redis.tls is for store: redis; the Valkey of the chart has no TLS: set redis.tls.enabled to false, or store to redis" }}{{ end -}}
  {{- if not $v.networkPolicy.enabled }}{{ $wrong = append $wrong "store is valkey, whose nodes talk to each other without TLS: set networkPolicy.enabled to true" }}{{ end -}}
  {{- $there := dig "spec" "replicas" 0 (lookup "apps/v1" "StatefulSet" .Release.Namespace "weir-valkey") | int -}}
  {{- $count := mul 3 (add 1 $v.valkey.replicas) | int -}}
  {{- if lt $count $there }}{{ $wrong = append $wrong (printf "valkey.replicas makes %d nodes of %d, and a master may be among those that go: set it to %d" $count $there (sub (div $there 3) 1)) }}{{ end -}}
  {{- if not $v.redis.secret }}{{ $wrong = append $wrong "store is valkey: set redis.secret to the Secret that has its password" }}{{ end -}}
{{- end -}}
{{- range $at, $all := dict "region.aggregator.addresses" $v.region.aggregator.addresses "redis.addresses" $v.redis.addresses "aggregator.redis.addresses" $v.aggregator.redis.addresses -}}
  {{- range $all -}}
    {{- if not (regexMatch "^(\\[[0-9a-fA-F:]+\\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?):[0-9]{1,5}$" .) }}{{ $wrong = append $wrong (printf "%s has %q: write HOST:PORT, such as redis.example:6379" $at .) }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- range $v.networkPolicy.regionCIDRs -}}
  {{- if not (regexMatch "^[0-9a-fA-F.:]+/[0-9]{1,3}$" .) }}{{ $wrong = append $wrong (printf "networkPolicy.regionCIDRs has %q: write addresses with the length of their prefix, such as 10.2.0.0/16" .) }}{{ end -}}
{{- end -}}
{{- if not $v.image.prefix }}{{ $wrong = append $wrong "image.prefix is empty: set it to what the names of the images in your registry begin with, such as registry.example/weir" }}{{ end -}}
{{- if regexMatch ":[^/]*$" $v.image.prefix }}{{ $wrong = append $wrong (printf "image.prefix is %q: write what the names of images begin with, such as registry.example/weir, and the version in image.tag" $v.image.prefix) }}{{ end -}}
{{- $stores := dict -}}
{{- if and $v.region.enabled (eq $v.store "redis") }}{{ $_ := set $stores "redis" $v.redis }}{{ end -}}
{{- if $v.aggregator.redis.addresses }}{{ $_ := set $stores "aggregator.redis" $v.aggregator.redis }}{{ end -}}
{{- range $at, $r := $stores -}}
  {{- if not $r.addresses }}{{ $wrong = append $wrong (printf "store is redis: set %s.addresses to the HOST:PORT of your Redis, or store to valkey for a cluster of this release" $at) }}{{ end -}}
  {{- if ne (eq $r.mode "sentinel") (ne $r.sentinelMaster "") -}}
    {{- $wrong = append $wrong (printf "%s.mode: sentinel and %s.sentinelMaster need each other: set both or neither" $at $at) -}}
  {{- end -}}
  {{- if and (not $r.tls.enabled) (or $r.tls.name $r.tls.clientCertificate) }}{{ $wrong = append $wrong (printf "%s.tls has settings, and is off: set %s.tls.enabled to true" $at $at) }}{{ end -}}
  {{- if and $r.tls.enabled (not $r.secret) (or $r.tls.ca $r.tls.clientCertificate) -}}
    {{- $wrong = append $wrong (printf "%s.tls reads files of a Secret: set %s.secret, or tls.ca and tls.clientCertificate to false" $at $at) -}}
  {{- end -}}
{{- end -}}
{{- if and (gt (int $v.aggregator.replicas) 1) (not $v.aggregator.redis.addresses) -}}
  {{- $wrong = append $wrong (printf "aggregator.replicas is %d: several with counters in memory would each grant the whole limit; set aggregator.redis.addresses, or aggregator.replicas to 1" (int $v.aggregator.replicas)) -}}
{{- end -}}
{{- with $v.consul -}}
  {{- range $program, $secret := .secrets -}}
    {{- if and $v.consul.tls.enabled (index $v $program "enabled") (not $secret) }}{{ $wrong = append $wrong (printf "consul.tls.enabled is true: set consul.secrets.%s to a Secret with ca.crt" $program) }}{{ end -}}
  {{- end -}}
  {{- if and (not .tls.enabled) (or .tls.name .tls.clientCertificate) }}{{ $wrong = append $wrong "consul.tls has settings, and is off: set consul.tls.enabled to true" }}{{ end -}}
{{- end -}}
{{- if and $v.admin.tokensSecret (not $v.admin.local) }}{{ $wrong = append $wrong "admin.tokensSecret is set, and the admin API is off: set admin.local to true" }}{{ end -}}
{{- with $v.certManager }}{{ if .popNamespace -}}
  {{- if not .issuer.name }}{{ $wrong = append $wrong "certManager.popNamespace is set, and nobody issues its certificate: set certManager.issuer.name" }}{{ end -}}
  {{- if and (ne .popNamespace $.Release.Namespace) (eq .issuer.kind "Issuer") }}{{ $wrong = append $wrong "certManager.popNamespace is another namespace than that of the Issuer: set certManager.issuer.kind to ClusterIssuer" }}{{ end -}}
{{- end }}{{ end -}}
{{- with $v.autoscaling }}{{ if .enabled -}}
  {{- if not (or .cpu .decisionsPerSecond) }}{{ $wrong = append $wrong "autoscaling.enabled is true, and nothing says by what: set autoscaling.cpu or autoscaling.decisionsPerSecond" }}{{ end -}}
  {{- if gt (int .minReplicas) (int .maxReplicas) }}{{ $wrong = append $wrong (printf "autoscaling.minReplicas is %d, and maxReplicas %d: make the first one the smaller" (int .minReplicas) (int .maxReplicas)) }}{{ end -}}
  {{- if not $v.region.enabled }}{{ $wrong = append $wrong "autoscaling is of the region: set region.enabled to true, or autoscaling.enabled to false" }}{{ end -}}
{{- end }}{{ end -}}
{{- $own := dict "region" (include "weir.regionArgs" (dict "root" .)) "aggregator" (include "weir.aggregatorArgs" (dict "root" .)) -}}
{{- range $program, $args := $own -}}
  {{- $flags := dict -}}
  {{- range fromYamlArray $args }}{{ $_ := set $flags (splitList "=" . | first) true }}{{ end -}}
  {{- range (index $v $program).args -}}
    {{- $flag := splitList "=" . | first -}}
    {{- if hasKey $flags (regexReplaceAll "^--no-" $flag "--") }}{{ $wrong = append $wrong (printf "%s.args has %s, which the chart sets: change the value for it instead" $program $flag) }}
    {{- else if regexMatch "^--(drain|admin-tls)-" $flag }}{{ $wrong = append $wrong (printf "%s.args has %s, with which probes and the grace period of the pod do not go: leave it out" $program $flag) }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- if $wrong }}{{ fail (printf "\n  %s" (join "\n  " $wrong)) }}{{ end -}}
{{- end }}
