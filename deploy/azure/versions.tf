terraform {
  required_version = ">= 1.9"
  required_providers {
    # It knows Azure's schema of each API version and checks bodies against it in
    # `terraform plan`, without asking Azure.
    azapi = {
      source  = "azure/azapi"
      version = "~> 2.0"
    }
  }
}

provider "azapi" {
  subscription_id = var.subscription
  default_tags    = { app = var.name }
}
