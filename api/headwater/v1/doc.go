// Package headwaterv1 holds the messages of the API, generated from headwater.proto beside it. Package api translates
// between them and the domain.
package headwaterv1
