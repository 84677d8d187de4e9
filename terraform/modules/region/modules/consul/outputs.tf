output "agent_security_group_id" {
  description = "Security group of everything that runs an agent."
  value       = aws_security_group.agent.id
}

output "server_security_group_id" {
  description = "Security group of the servers."
  value       = aws_security_group.server.id
}
