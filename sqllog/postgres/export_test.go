package postgres

// AppendText is the text of the append, for sessions that a test interleaves by hand.
func AppendText(o Options) string {
	o = o.withDefaults()
	return statements(names{o.Schema, o.Prefix}).Append.Text
}

// Apart makes the logs that are opened from now on strangers to those opened before, as if in another process: they do
// not wake each other without the server.
func Apart() { signals.Clear() }
