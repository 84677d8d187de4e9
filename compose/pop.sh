#!/bin/sh
# Starts a PoP: fills in what differs from PoP to PoP, which Envoy itself cannot read from its
# environment. POP names it, REGION its region, CONSUL is the address of Consul's DNS. FILTER is the
# module: wasm or native.
set -eu
case $FILTER in
wasm) bootstrap=pop.yaml ;;
native) bootstrap=native.yaml ;;
*) echo "pop.sh: WEIR_FILTER is $FILTER; use wasm or native" >&2; exit 1 ;;
esac
# Envoy reads certificates through these two files, and again when theirs are replaced: envoy/certificate.yaml.
secret() {
  echo "resources: [{ '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: $1, $2 }]" >"/tmp/$1.yaml"
}
secret certificate 'tls_certificate: { certificate_chain: { filename: /certs/cert.pem }, private_key: { filename: /certs/key.pem } }'
secret authorities 'validation_context: { trusted_ca: { filename: /certs/ca.pem } }'
sed -e "s/@POP@/$POP/g" -e "s/@REGION@/$REGION/g" -e "s/@CONSUL@/$CONSUL/g" /etc/weir/$bootstrap >/tmp/pop.yaml
exec envoy -c /tmp/pop.yaml --concurrency 2 --disable-hot-restart --log-level warning
