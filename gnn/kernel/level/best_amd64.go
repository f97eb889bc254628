package level

import "golang.org/x/sys/cpu"

// Best returns the best level that the machine has.
func Best() Level {
	switch x := &cpu.X86; {
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasBMI2 && x.HasFMA:
		return AVX512
	case x.HasAVX2 && x.HasBMI2 && x.HasFMA:
		return AVX2
	}
	return Plain
}
