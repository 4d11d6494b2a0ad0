// Package tablestore reads and writes Azure tables. It checks the service's limits
// before it sends a request: keys (paper row T1), entity-group transactions (T2)
// and query classes (T5). Azurite accepts requests that Azure refuses, so without
// these checks every test could pass and Azure would still fail.
//
// Every write carries a property OpId, its write id, which is new with each call.
// When a reply is lost, the request is repeated and may meet a conflict. If the row
// then has our write id, our first try had succeeded (row Q13).
package tablestore
