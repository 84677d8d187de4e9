# A Consul server, alone in its datacenter. Names and addresses are in docker-compose.yml.
server               = true
bootstrap_expect     = 1
bind_addr            = "0.0.0.0" # it is on two networks; -advertise and -advertise-wan choose
client_addr          = "0.0.0.0"
disable_update_check = true
log_level            = "warn"
performance { raft_multiplier = 2 } # a leader within seconds
