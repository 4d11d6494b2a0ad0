// Package blobstore moves blobs: whole ones, files and ranges. Every transfer is checked by MD5
// (paper row Q12), is made of small calls (Q14), and may be repeated after a
// lost reply (Q13).
//
// Containers are given by base name, before which stands the account's prefix.
package blobstore
