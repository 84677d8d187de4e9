#!/bin/sh
# Starts a PoP: fills in what differs from PoP to PoP, which Envoy itself cannot read from its
# environment. POP names it, REGION its region, CONSUL is the address of Consul's DNS.
set -eu
sed -e "s/@POP@/$POP/g" -e "s/@REGION@/$REGION/g" -e "s/@CONSUL@/$CONSUL/g" /etc/weir/pop.yaml >/tmp/pop.yaml
exec envoy -c /tmp/pop.yaml --concurrency 2 --disable-hot-restart --log-level warning
