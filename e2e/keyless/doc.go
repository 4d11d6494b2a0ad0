// Package keyless stands in for what Azure puts around a storage account that takes
// no keys: the endpoint at which a container asks for the token of its managed
// identity, the account's host names with TLS, and the judgement of what an
// identity's roles allow. Behind it is Azurite, with OAuth.
//
// The roles run as they are deployed: they get the account's name, the endpoint
// (IDENTITY_ENDPOINT, IDENTITY_HEADER, as in Container Apps), and a proxy
// (HTTPS_PROXY) and a certificate authority (SSL_CERT_FILE) through which the real
// host names lead to Azurite. No program and no variable holds a key.
//
// What it is not: Azurite reads a token and believes it, so this package checks
// signature, audience and life; and it knows of Azure's roles only what the
// documentation of each request says. Real role assignments were never tried.
package keyless
