# One identity for each thing that asks, with the roles that it needs on the account.
# e2e/keyless reads this list and holds the built roles to it.
locals {
  roles = {
    web    = ["Storage Blob Data Contributor", "Storage Queue Data Contributor", "Storage Table Data Contributor"]
    worker = ["Storage Blob Data Contributor", "Storage Queue Data Contributor", "Storage Table Data Contributor"]
    scaler = ["Storage Queue Data Reader"]
  }
  # https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
  definitions = {
    "Storage Blob Data Contributor"  = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
    "Storage Queue Data Contributor" = "974c5e8b-45b9-4653-ba55-5f855dd0fb88"
    "Storage Table Data Contributor" = "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3"
    "Storage Queue Data Reader"      = "19e7f393-937e-4f77-808e-94535e297925"
    "AcrPull"                        = "7f951dda-4ed3-4680-a7ca-43fe172d538d"
  }
  grants = merge([for who, names in local.roles : { for name in names : "${who}: ${name}" => { who = who, role = name } }]...)
}

resource "azapi_resource" "identity" {
  for_each               = local.roles
  type                   = "Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31"
  name                   = "${var.name}-${each.key}"
  parent_id              = azapi_resource.group.id
  location               = var.location
  body                   = {}
  response_export_values = ["properties.principalId", "properties.clientId"]
}

resource "azapi_resource" "grant" {
  for_each  = local.grants
  type      = "Microsoft.Authorization/roleAssignments@2022-04-01"
  name      = uuidv5("url", "https://${var.name}/${each.key}")
  parent_id = azapi_resource.account.id
  body = {
    properties = {
      principalId      = azapi_resource.identity[each.value.who].output.properties.principalId
      principalType    = "ServicePrincipal"
      roleDefinitionId = "/subscriptions/${var.subscription}/providers/Microsoft.Authorization/roleDefinitions/${local.definitions[each.value.role]}"
    }
  }
}

resource "azapi_resource" "pull" {
  for_each  = var.registry == null ? toset([]) : toset(["web", "worker"])
  type      = "Microsoft.Authorization/roleAssignments@2022-04-01"
  name      = uuidv5("url", "https://${var.name}/${each.key}: AcrPull")
  parent_id = var.registry.id
  body = {
    properties = {
      principalId      = azapi_resource.identity[each.key].output.properties.principalId
      principalType    = "ServicePrincipal"
      roleDefinitionId = "/subscriptions/${var.subscription}/providers/Microsoft.Authorization/roleDefinitions/${local.definitions["AcrPull"]}"
    }
  }
}
