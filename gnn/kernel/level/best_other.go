//go:build !amd64

package level

// Best returns Plain: there is assembly for amd64 alone.
func Best() Level { return Plain }
