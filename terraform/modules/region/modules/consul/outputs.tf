output "agent_security_group_id" {
  description = "Security group of everything that runs an agent."
  value       = aws_security_group.agent.id
}
