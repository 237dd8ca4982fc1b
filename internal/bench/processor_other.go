//go:build !linux

package bench

func processorTime() (Processor, bool) { return Processor{}, false }
