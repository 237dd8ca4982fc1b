package mysql

// AppendText is the append of a prefix as it stands in a manual: values in place of placeholders are the caller's.
func AppendText(prefix string) string { return statements(prefix).Append.Text }

// TruncateText is the truncation of a prefix.
func TruncateText(prefix string) string { return statements(prefix).Truncate.Text }

// Statements are the statements of a prefix.
var Statements = statements

// Classify is the dialect's error table.
var Classify = classify

// Verdicts is the table itself.
var Verdicts = verdicts

// Address takes a connection string apart: where it leads, and with what password.
func Address(dsn string) (location, password string, err error) {
	a, err := parseAddress(dsn)
	if err != nil {
		return "", "", err
	}
	d, err := parse(Options{DSN: dsn}.withDefaults())
	if err != nil {
		return "", "", err
	}
	return d.where, a.password, nil
}

// Apart makes the logs that are opened from now on strangers to those opened before, as if in another process: they do
// not wake each other without the server.
func Apart() { signals.Clear() }
