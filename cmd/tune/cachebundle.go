package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/cmd/internal/cli"
)

func cacheExportCmd(s *cli.Shared) *cobra.Command {
	var keyFile string
	c := &cobra.Command{
		Use: "export FILE", Short: "Write decisions and host rules to a signed bundle (- for stdout)", Args: cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if keyFile == "" {
				return cli.Usagef("no key: give --key PRIVATE (`tune cache keygen FILE` makes one)")
			}
			key, err := readPrivate(keyFile)
			if err != nil {
				return err
			}
			st, err := openStore(s, true)
			if err != nil {
				return err
			}
			defer st.Close()
			b, n, err := st.Export(key)
			if err != nil {
				return err
			}
			if args[0] == "-" {
				_, err := cmd.OutOrStdout().Write(b)
				return err
			}
			if err := renameio.WriteFile(args[0], b, 0o644); err != nil {
				return err
			}
			signer := fingerprint(key.Public().(ed25519.PublicKey))
			if s.JSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"schema": 1, "file": args[0], "entries": n, "signed_by": signer})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d entries to %s, signed by %s\n", n, args[0], signer)
			return err
		},
	}
	c.Flags().StringVar(&keyFile, "key", "", "private key that signs the bundle")
	return c
}

func cacheImportCmd(s *cli.Shared) *cobra.Command {
	var keyFile string
	c := &cobra.Command{
		Use: "import FILE", Short: "Add the entries of a signed bundle as candidates (- for stdin)", Args: cli.ExactArgs(1),
		Long: "Add the decisions and host rules of a bundle. They are candidates: nothing runs them before a tune has\n" +
			"measured them on this machine. Entries that are already here are kept.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if keyFile == "" {
				return cli.Usagef("no key: give --trust PUBLIC, the public key of who signed the bundle")
			}
			key, err := readPublic(keyFile)
			if err != nil {
				return err
			}
			b, err := readBundle(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			st, err := openStore(s, false)
			if err != nil {
				return err
			}
			defer st.Close()
			added, kept, err := st.Import(b, key)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if w := st.Warning(); w != "" { // the disk filled up on the way
				return fmt.Errorf("imported entries could not be written: %s", w)
			}
			if s.JSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"schema": 1, "added": added, "kept": kept})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d added as candidates, %d already here\n", added, kept)
			return err
		},
	}
	c.Flags().StringVar(&keyFile, "trust", "", "public key that the bundle must be signed with")
	return c
}

func readBundle(stdin io.Reader, file string) ([]byte, error) {
	r := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	return io.ReadAll(io.LimitReader(r, cache.MaxBundle+1))
}

func cacheKeygenCmd(s *cli.Shared) *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Make a key to sign bundles: FILE (private) and FILE.pub", Args: cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pub, priv, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return err
			}
			file := args[0]
			private, err1 := x509.MarshalPKCS8PrivateKey(priv)
			public, err2 := x509.MarshalPKIXPublicKey(pub)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if err := createPEM(file, 0o600, pemPrivate, private); err != nil {
				return err
			}
			if err := createPEM(file+".pub", 0o644, pemPublic, public); err != nil {
				return err
			}
			if s.JSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"schema": 1, "private": file, "public": file + ".pub", "fingerprint": fingerprint(pub)})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "private key %s (keep it), public key %s.pub (give it away), fingerprint %s\n", file, file, fingerprint(pub))
			return err
		},
	}
}

const (
	pemPrivate = "PRIVATE KEY"
	pemPublic  = "PUBLIC KEY"
)

// createPEM writes a key file that must not exist yet: keys are never overwritten.
func createPEM(file string, mode os.FileMode, kind string, der []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: a key is never overwritten, remove it yourself or choose another name", file)
	}
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Close())
}

func readPrivate(file string) (ed25519.PrivateKey, error) {
	fi, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("--key %s: others may read it (mode %04o): chmod 600 it, or make another", file, fi.Mode().Perm())
	}
	der, err := readPEM(file, pemPrivate)
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w", file, err)
	}
	k, err := x509.ParsePKCS8PrivateKey(der)
	if key, ok := k.(ed25519.PrivateKey); ok {
		return key, nil
	}
	return nil, fmt.Errorf("--key %s: not an ed25519 private key (%v)", file, keyProblem(k, err))
}

func readPublic(file string) (ed25519.PublicKey, error) {
	der, err := readPEM(file, pemPublic)
	if err != nil {
		return nil, fmt.Errorf("--trust %s: %w", file, err)
	}
	k, err := x509.ParsePKIXPublicKey(der)
	if key, ok := k.(ed25519.PublicKey); ok {
		return key, nil
	}
	return nil, fmt.Errorf("--trust %s: not an ed25519 public key (%v)", file, keyProblem(k, err))
}

func keyProblem(k any, err error) any {
	if err != nil {
		return err
	}
	return fmt.Sprintf("it is a %T", k)
}

func readPEM(file, kind string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	switch {
	case block == nil:
		return nil, fmt.Errorf("not a PEM file: `tune cache keygen` makes keys")
	case block.Type != kind:
		return nil, fmt.Errorf("holds a %s, want a %s", block.Type, kind)
	}
	return block.Bytes, nil
}

// fingerprint is what people compare: SHA256: and base64 of the hash of the raw key.
func fingerprint(k ed25519.PublicKey) string {
	sum := sha256.Sum256(k)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}
