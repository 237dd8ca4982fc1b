package postgres

// AppendText is the text of the append, for sessions that a test interleaves by hand.
func AppendText(o Options) string {
	o = o.withDefaults()
	return statements(names{o.Schema, o.Prefix}).Append.Text
}
