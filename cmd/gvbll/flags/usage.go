package flags

import (
	"errors"
	"fmt"
	"regexp"
)

// usageError is an error of a command line whose flags parse, but whose values or
// combination are wrong.
type usageError struct{ error }

// Usagef returns a usageError.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// settingLine matches the beginning of a line about a setting that is out of range.
var settingLine = regexp.MustCompile(`(?m)^[a-z-]+ \S+: `)

// SettingError turns an error about settings, "lambda 2: give …", into a usage error
// about the flags of the same names, "--lambda 2: give …".
func SettingError(err error) error {
	if err == nil {
		return nil
	}
	return usageError{errors.New(settingLine.ReplaceAllString(err.Error(), "--$0"))}
}
