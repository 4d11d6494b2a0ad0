output "WEBROLE_URL" {
  value       = "https://${local.web_host}"
  description = "Where the pages are."
}

output "AZURE_STORAGE_ACCOUNT" {
  value       = azapi_resource.account.name
  description = "The account."
}
