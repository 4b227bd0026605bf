def backend_choices(calls): return ()
