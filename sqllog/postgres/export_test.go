package postgres

// AppendText is the text of the append, for sessions that a test interleaves by hand.
func AppendText(o Options) string {
	o = o.withDefaults()
	return statements(names{o.Schema, o.Prefix}).Append.Text
}

// PoliteText is the text of the append that gives way to whoever has the turn.
func PoliteText(o Options) string {
	o = o.withDefaults()
	return politeText(names{o.Schema, o.Prefix})
}

// LineText is the text of the statement that waits for a turn.
func LineText(o Options) string {
	o = o.withDefaults()
	return turnTexts(names{o.Schema, o.Prefix}, true)[1]
}

// Apart makes the logs that are opened from now on strangers to those opened before, as if in another process: they do
// not wake each other without the server.
func Apart() { signals.Clear() }

// Address tells where a connection string leads.
func Address(dsn string) (location string, err error) {
	config, err := parse(dsn)
	if err != nil {
		return "", err
	}
	return describe(config), nil
}
