resource "azapi_resource" "group" {
  type      = "Microsoft.Resources/resourceGroups@2024-03-01"
  name      = var.name
  parent_id = "/subscriptions/${var.subscription}"
  location  = var.location
  body      = {}
}

resource "azapi_resource" "account" {
  type      = "Microsoft.Storage/storageAccounts@2023-05-01"
  name      = var.name
  parent_id = azapi_resource.group.id
  location  = var.location
  body = {
    kind = "StorageV2"
    sku  = { name = "Standard_LRS" }
    properties = {
      accessTier                   = "Hot"
      allowSharedKeyAccess         = false # identities alone, and what they sign
      allowBlobPublicAccess        = false
      allowCrossTenantReplication  = false
      defaultToOAuthAuthentication = true
      minimumTlsVersion            = "TLS1_2"
      supportsHttpsTrafficOnly     = true
      sasPolicy                    = { expirationAction = "Log", sasExpirationPeriod = "00.00:15:00" } # a valet key's life
    }
  }
}

# Browsers put parts of their uploads straight into blobs. The roles may not set these rules
# themselves; the rule is the one that azstore.EnsureCORS makes on the emulator.
resource "azapi_resource" "blobs" {
  type      = "Microsoft.Storage/storageAccounts/blobServices@2023-05-01"
  name      = "default"
  parent_id = azapi_resource.account.id
  body = {
    properties = {
      cors = {
        corsRules = [{
          allowedOrigins  = concat(["https://${local.web_host}"], var.origins)
          allowedMethods  = ["PUT"]
          allowedHeaders  = ["content-md5", "if-none-match", "x-ms-blob-type", "x-ms-version"]
          exposedHeaders  = []
          maxAgeInSeconds = 3600
        }]
      }
      # A purge deletes for good after a week: so long can it be taken back.
      deleteRetentionPolicy          = { enabled = true, days = 7 }
      containerDeleteRetentionPolicy = { enabled = true, days = 7 }
    }
  }
}

# What may be deleted only the rows know: the janitor deletes blobs that no row names,
# a purge those of a deleted video. So no rule here deletes. Uploads are read while
# their video is made, and later for a clip or to make it again: they move to the cool
# tier. What viewers get stays hot. Blocks that are not committed Azure drops after a week.
resource "azapi_resource" "lifecycle" {
  type      = "Microsoft.Storage/storageAccounts/managementPolicies@2023-05-01"
  name      = "default"
  parent_id = azapi_resource.account.id
  body = {
    properties = {
      policy = {
        rules = [{
          enabled = true
          name    = "uploads-cool"
          type    = "Lifecycle"
          definition = {
            filters = { blobTypes = ["blockBlob"], prefixMatch = ["sources/"] }
            actions = { baseBlob = { tierToCool = { daysAfterModificationGreaterThan = 30 } } }
          }
        }]
      }
    }
  }
}
