def probe_dtypes(*a,**k): return ()
