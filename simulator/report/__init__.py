"""Results for people and programs: text, HTML, PNG, Perfetto."""
