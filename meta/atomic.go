package meta

// atomic applies several commands, all or nothing: each is judged against what the ones before it left, and the first
// refusal undoes them all.
func (t *tx) atomic(c Atomic) outcome {
	m := t.mark()
	t.inAtomic, t.budget = true, MaxSlices
	defer func() { t.inAtomic = false }()
	// What the commands say of themselves has been judged with the limits; here it only leaves less for the slices
	// of compaction sources, which only the state knows.
	for _, inner := range c.Commands {
		t.budget -= min(t.budget, workOf(inner))
	}
	all := Redundant
	answers := make([]InnerAnswer, 0, len(c.Commands))
	for i, inner := range c.Commands {
		o := t.judge(inner)
		if o.status == Rejected {
			t.restore(m)
			o.err.Inner = i
			return o
		}
		if o.status == Applied {
			all = Applied
		}
		answers = append(answers, InnerAnswer{Status: o.status, Result: o.result})
	}
	return outcome{status: all, result: AtomicResult{Answers: answers}}
}
