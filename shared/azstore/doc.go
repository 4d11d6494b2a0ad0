// Package azstore opens an Azure Storage account, or the Azurite emulator,
// for the rest of Cutroom: credentials, clients, retries, error codes and
// signed URLs. It is the only package that knows how to authenticate.
//
// What it adds to the SDKs: the paper's retry strategies (row T11), which count the tries;
// status and code of every error, also inside a table batch (row Q15); errors and log
// attributes without signatures; one prefix for all names, so that many stacks share an account.
//
// Next: shared/azstore/tablestore, the table layer that keeps the service's limits.
package azstore
