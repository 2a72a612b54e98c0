go build -ldflags "$LDFLAGS" -o "$OUT/" .
