// Package azstorage opens an Azure Storage account, or the Azurite emulator,
// for the rest of Cutroom: credentials, clients, retries, error codes and
// signed URLs. It is the only package that knows how to authenticate.
//
// What it adds to the SDKs:
//
//   - the paper's retry strategies (row T11), which count the tries so that a
//     caller can tell a real conflict from its own lost reply (row Q13);
//   - both the HTTP status and the storage code of every error, also of errors
//     inside a table batch (row Q15);
//   - errors and log attributes without signatures of signed URLs;
//   - one prefix for all names, so that many stacks share an account.
//
// Next: shared/tablestore, the table layer that keeps the service's limits.
package azstorage
