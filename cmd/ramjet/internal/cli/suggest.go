// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// DidYouMean returns the text behind an unknown word: the words that are like it, or all.
func DidYouMean(word string, known []string) string {
	root := &cobra.Command{SuggestionsMinimumDistance: 2} // it knows which words are alike
	for _, k := range known {
		root.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	if like := root.SuggestionsFor(word); len(like) > 0 && word != "" {
		return "did you mean " + strings.Join(like, " or ") + "?"
	}
	return "there are " + strings.Join(known, ", ")
}

// FlagError describes the error of a flag: its value, or that a command does not have it, and which flag was meant.
func FlagError(c *cobra.Command, err error) error {
	if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
		return Usagef("--%s: %s", wrong.GetFlag().Name, whyWrong(wrong))
	}
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return err
	}
	name := unknown.GetSpecifiedName()
	if group := unknown.GetSpecifiedShortnames(); group != "" {
		name = group
		if len(name) < 3 {
			return err
		}
	}
	name, _, _ = strings.Cut(name, "=")
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	like := DidYouMean("--"+name, known)
	if !strings.HasPrefix(like, "did you mean") {
		return err
	}
	return Usagef("%w: %s", err, like)
}

// whyWrong describes the error in the value of a flag.
func whyWrong(e *pflag.InvalidValueError) string {
	number := (*strconv.NumError)(nil)
	if !errors.As(e, &number) {
		return e.Unwrap().Error()
	}
	switch kind := e.GetFlag().Value.Type(); {
	case kind == "bool":
		return fmt.Sprintf("%q is neither true nor false: give the flag without a value", e.GetValue())
	case errors.Is(number, strconv.ErrRange):
		return fmt.Sprintf("%q is too large or too small", e.GetValue())
	case strings.HasPrefix(kind, "uint"):
		return fmt.Sprintf("%q is not a whole number from 0 on", e.GetValue())
	}
	return fmt.Sprintf("%q is not a whole number", e.GetValue())
}
