package sqlite

import "net/url"

// FileURI is the name by which SQLite opens path, whatever characters are in it.
func FileURI(path, query string) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}
